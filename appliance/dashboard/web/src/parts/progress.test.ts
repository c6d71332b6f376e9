import { expect, test } from "vitest";
import { progressText } from "./progress";

test("progress says the step and the time left, once that is known", () => {
  expect(progressText({ completed_steps: 375, num_steps: 600, remaining_seconds: 120.4 })).toBe("step 375 of 600, 2 min to go");
  expect(progressText({ completed_steps: 0, num_steps: 60_000, remaining_seconds: null })).toBe("step 0 of 60,000");
  expect(progressText({ completed_steps: 600, num_steps: 600, remaining_seconds: 0 })).toBe("step 600 of 600");
});
