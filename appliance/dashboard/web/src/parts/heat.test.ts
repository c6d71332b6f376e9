import { expect, it } from "vitest";
import { heat, held, loads } from "./heat";

const pattern = (share: number, bytes: number, rows: number[], columns: number[]) => ({
  share_of_cycles: share,
  bytes_per_pe: bytes,
  row_loads: rows,
  column_loads: columns,
});

it("adds the patterns up, weighted with their cycles", () => {
  const found = loads([pattern(0.75, 8, [1, 1], [1, 0]), pattern(0.25, 4, [1, 0.5], [1, 1])], 2);
  expect(found).toEqual([1, 0.25, 0.875, 0.125]);
});

it("shows what the widest tensor leaves in each cell", () => {
  expect(held([pattern(0.75, 8, [1, 0.5], [1, 0]), pattern(0.25, 4, [1, 1], [1, 1])], 2)).toEqual([8, 0, 4, 0]);
  expect(held([], 1)).toEqual([0]);
});

it("goes from dark to bright", () => {
  expect(heat(0)).toBe("rgb(0,0,4)");
  expect(heat(1)).toBe("rgb(252,255,164)");
  expect(heat(2)).toBe(heat(1));
});
