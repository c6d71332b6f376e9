import { describe, expect, it } from "vitest";
import { bytes, count, duration, figure, percent, rate } from "./format";

describe("numbers as people read them", () => {
  it.each([
    [0, "0 B"],
    [999, "999 B"],
    [1_000, "1.00 kB"],
    [999_999, "1.00 MB"],
    [44_000_000_000, "44.0 GB"],
    [123_456_789_012, "123 GB"],
  ])("writes %d bytes as %s", (value, text) => expect(bytes(value)).toBe(text));

  it("writes rates, counts and shares", () => {
    expect(rate(1_500_000)).toBe("1.50 MB/s");
    expect(count(12_345)).toBe("12.3 k");
    expect(percent(0.5)).toBe("50 %");
    expect(percent(0.0123)).toBe("1.2 %");
    expect(percent(0)).toBe("0 %");
    expect(percent(0.000_041)).toBe("0.004 %");
  });

  it.each([
    [0, "0 s"],
    [0.000_012, "12.0 us"],
    [0.19, "190 ms"],
    [5, "5.00 s"],
    [75, "1 min 15 s"],
    [7_260, "2 h 1 min"],
    [200_000, "2 d 7 h"],
    [-75, "-1 min 15 s"],
  ])("writes %d seconds as %s", (value, text) => expect(duration(value)).toBe(text));

  it("keeps four digits of a loss", () => {
    expect(figure(2.57412)).toBe("2.574");
    expect(figure(0.000_012)).toBe("1.20e-5");
  });
});
