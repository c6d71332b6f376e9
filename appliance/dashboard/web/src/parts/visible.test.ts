import { expect, it } from "vitest";
import { scrolledBy, visibleSpan } from "./visible";

it("shows a window of a long list and a margin around it", () => {
  expect(visibleSpan(44_000, 440, 44, 10_000)).toEqual({ first: 992, end: 1018 });
});

it("stays within a short list", () => {
  expect(visibleSpan(0, 440, 44, 3)).toEqual({ first: 0, end: 3 });
  expect(visibleSpan(9_999, 440, 44, 0)).toEqual({ first: 0, end: 0 });
});

it("goes by keys to the ends and by pages, and no further", () => {
  const list = { scrollTop: 500, scrollHeight: 10_000, clientHeight: 400 };
  expect(scrolledBy("End", list)).toBe(9_600);
  expect(scrolledBy("Home", list)).toBe(0);
  expect(scrolledBy("PageDown", list)).toBe(860);
  expect(scrolledBy("PageUp", { ...list, scrollTop: 100 })).toBe(0);
  expect(scrolledBy("Enter", list)).toBeNull();
});
