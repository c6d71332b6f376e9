import { describe, expect, it } from "vitest";
import { type Bar, placeBars, planned, spanOf, ticks } from "./timeline";

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

describe("planned starts", () => {
  it("come soonest first, each on a row of its own", () => {
    const bars = planned([{ job: "b", start: 900, run: 50 }, { job: "a", start: 500, run: 200 }], 1000);
    expect(bars.map((each) => [each.row, each.job, each.start, each.end])).toEqual([
      ["next 1", "a", 500, 700],
      ["next 2", "b", 900, 950],
    ]);
  });

  it("have no end when it cannot be said, and do not stretch what is shown", () => {
    const [plan] = planned([{ job: "a", start: 1_000_000, run: null }], 2_000_000);
    expect(plan?.end).toBe(Infinity);
    const shown = spanOf(plan ? [plan] : [], 900_000);
    expect(shown).toEqual({ from: 300_000, to: 1_200_000 + 0.15 * 900_000 });
    expect(placeBars(plan ? [plan] : [], ["next 1"], { ...shown, width: 1035, rowHeight: 20 })).toMatchObject([{ x: 700, width: 335 }]);
  });

  it("beyond the horizon, and beyond eight, are left out", () => {
    expect(planned([{ job: "a", start: 2000, run: 1 }], 1000)).toEqual([]);
    const many = Array.from({ length: 20 }, (_, index) => ({ job: `${index}`, start: index, run: 1 }));
    expect(planned(many, 1000)).toHaveLength(8);
  });
});

it("puts ticks at round times", () => {
  expect(ticks(61_000, 361_000, 500)).toEqual([300_000]);
  expect(ticks(0, 120_000, 440)).toEqual([0, 30_000, 60_000, 90_000, 120_000]);
});
