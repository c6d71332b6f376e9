import { expect, test } from "vitest";
import { jobProgress, progressText } from "./progress";

test("progress says the step and the time left, once that is known", () => {
  expect(progressText({ completed_steps: 375, num_steps: 600, remaining_seconds: 120.4 })).toBe("step 375 of 600, 2 min to go");
  expect(progressText({ completed_steps: 0, num_steps: 60_000, remaining_seconds: null })).toBe("step 0 of 60,000");
  expect(progressText({ completed_steps: 600, num_steps: 600, remaining_seconds: 0 })).toBe("step 600 of 600");
});

test("a job that runs no session says how far its last one came", () => {
  const first = { session: 1, completed_steps: 90, num_steps: 90, remaining_seconds: 0 };
  const second = { session: 2, completed_steps: 3, num_steps: 8 };
  expect(jobProgress(null, [], true)).toBe("none");
  expect(jobProgress({ completed_steps: 4, num_steps: 8, remaining_seconds: 3 }, [first, second], true)).toBe("step 4 of 8, 3 s to go");
  expect(jobProgress(null, [first], true)).toBe("step 90 of 90, no session runs now");
  expect(jobProgress(null, [first, second], false)).toBe("session 2: step 3 of 8");
});
