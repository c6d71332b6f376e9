import { expect, test } from "vitest";
import { forgettable, wantedChunks } from "./chunks";

test("the rows that are seen and the head of the list are wanted", () => {
  expect(wantedChunks(0, 40, 10_000)).toEqual([0]);
  expect(wantedChunks(4_980, 5_020, 10_000)).toEqual([0, 4_900, 5_000]);
});

test("nothing behind the end is asked for", () => {
  expect(wantedChunks(9_990, 10_030, 10_000)).toEqual([0, 9_900]);
  expect(wantedChunks(0, 40, 0)).toEqual([0]);
});

test("the chunks nearest to what is seen are kept, and few", () => {
  const kept = Array.from({ length: 50 }, (_, index) => index * 100);
  const gone = forgettable(kept, [0, 2_000]);
  expect(kept.length - gone.length).toBe(12);
  expect(gone).not.toContain(0);
  expect(gone).not.toContain(2_100);
  expect(gone).toContain(4_900);
});
