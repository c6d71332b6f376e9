import { describe, expect, it } from "vitest";
import { axisTimes, type Bar, placeBars, planned, spanOf, stepTo, ticks } from "./timeline";

const bar = (start: number, end: number, row = "a"): Bar => ({ row, job: "j", name: "", phase: "RUNNING", start, end, isPlanned: false });
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
    const bars = planned([{ job: "b", name: "", start: 900, run: 50 }, { job: "a", name: "", start: 500, run: 200 }], 1000);
    expect(bars.map((each) => [each.row, each.job, each.start, each.end])).toEqual([
      ["next 1", "a", 500, 700],
      ["next 2", "b", 900, 950],
    ]);
  });

  it("have no end when it cannot be said, and do not stretch what is shown", () => {
    const [plan] = planned([{ job: "a", name: "", start: 1_000_000, run: null }], 2_000_000);
    expect(plan?.end).toBe(Infinity);
    const shown = spanOf(plan ? [plan] : [], 900_000);
    expect(shown).toEqual({ from: 300_000, to: 1_200_000 + 0.15 * 900_000 });
    expect(placeBars(plan ? [plan] : [], ["next 1"], { ...shown, width: 1035, rowHeight: 20 })).toMatchObject([{ x: 700, width: 335 }]);
  });

  it("beyond the horizon, and beyond eight, are left out", () => {
    expect(planned([{ job: "a", name: "", start: 2000, run: 1 }], 1000)).toEqual([]);
    const many = Array.from({ length: 20 }, (_, index) => ({ job: `${index}`, name: "", start: index, run: 1 }));
    expect(planned(many, 1000)).toHaveLength(8);
  });
});

it("puts ticks at round times", () => {
  expect(ticks(61_000, 361_000, 500)).toEqual([300_000]);
  expect(ticks(0, 120_000, 440)).toEqual([0, 30_000, 60_000, 90_000, 120_000]);
});

describe("what is written on the chart", () => {
  const named = (start: number, end: number, name: string): Bar => ({ ...bar(start, end), name });

  it("is a job's name in its bar, beside it where the bar is short, cut where there is no room", () => {
    const [wide] = placeBars([named(1000, 1600, "gpt-baseline")], ["a"], span);
    expect(wide).toMatchObject({ text: "gpt-baseline", textX: 6 });
    const [short] = placeBars([named(1000, 1040, "gpt-baseline")], ["a"], span);
    expect(short).toMatchObject({ text: "gpt-baseline", textX: 26 });
    const [cut] = placeBars([named(1000, 1100, "gpt-baseline"), named(1160, 1900, "b")], ["a"], span);
    expect(cut?.text).toBe("gpt-\u2026");
    expect(placeBars([named(1000, 1010, "gpt"), named(1015, 1900, "b")], ["a"], span)[0]?.text).toBe("");
    expect(placeBars([bar(1000, 1900)], ["a"], span)[0]?.text).toBe("j");
  });

  it("says a day once, where it begins", () => {
    const at = (day: number, hour: number): number => new Date(2026, 10, day, hour).getTime();
    expect(axisTimes([at(23, 22), at(23, 23), at(24, 0), at(24, 1)], at(24, 2))).toEqual(["22:00\n23 Nov", "23:00", "00:00\n24 Nov", "01:00"]);
    expect(axisTimes([at(24, 0), at(24, 0) + 15_000], at(24, 2))).toEqual(["00:00:00", "00:00:15"]);
  });
});

it("the arrow keys go from bar to bar, and no further than the last", () => {
  const steps: [string, number, number][] = [
    ["ArrowRight", 0, 1], ["ArrowDown", 1, 2], ["ArrowRight", 2, -1], ["ArrowLeft", 2, 1], ["ArrowUp", 0, -1],
    ["Home", 2, 0], ["End", 0, 2], ["Tab", 1, -1], ["ArrowRight", -1, 0],
  ];
  for (const [key, at, next] of steps) expect(stepTo(key, at, 3)).toBe(next);
  expect(stepTo("Home", -1, 0)).toBe(-1);
  expect(stepTo("End", -1, 0)).toBe(-1);
});
