import { describe, expect, it } from "vitest";
import { type Bar, placeBars, ticks } from "./timeline";

const bar = (start: number, end: number, row = "a"): Bar => ({ row, job: "j", phase: "RUNNING", start, end, isPlanned: false });
const span = { from: 1000, to: 2000, width: 500, rowHeight: 20 };

describe("bars of the Gantt chart", () => {
  it("lie where their times say", () => {
    expect(placeBars([bar(1200, 1600, "b")], ["a", "b"], span)).toMatchObject([{ x: 100, width: 200, y: 20 }]);
  });

  it("are cut at the edges and left out beyond them", () => {
    expect(placeBars([bar(0, 1500), bar(3000, 4000), bar(1200, 1300, "none")], ["a"], span)).toMatchObject([
      { x: 0, width: 250 },
    ]);
  });

  it("stay wide enough to be seen", () => {
    expect(placeBars([bar(1500, 1500)], ["a"], span)[0]?.width).toBe(3);
  });
});

it("puts ticks at round times", () => {
  expect(ticks(61_000, 361_000, 500)).toEqual([300_000]);
  expect(ticks(0, 120_000, 440)).toEqual([0, 30_000, 60_000, 90_000, 120_000]);
});
