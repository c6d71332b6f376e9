import { describe, expect, it } from "vitest";
import { clock, count, duration, figure, percent, quantity, rate, size } from "./format";
import table from "./quantities.json";

const WRITERS = { count, duration, figure, percent, rate, size };

describe.each(Object.keys(WRITERS) as (keyof typeof WRITERS)[])("%s writes as the table says, as Python does", (name) => {
  it.each(table[name] as [number, string][])("%d as %s", (value, text) => expect(WRITERS[name](value)).toBe(text));
});

it("every writer of the table is checked", () => expect(Object.keys(table).sort()).toEqual(Object.keys(WRITERS).sort()));

it("gives a unit the prefix that leaves three digits", () => expect(quantity(2.64e21, "FLOP")).toBe("2.64 ZFLOP"));

it("writes a time of another day with its year first", () => expect(clock(new Date(2025, 10, 2, 9, 5, 7))).toBe("2025-11-02 09:05:07"));
