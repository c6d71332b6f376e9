import { expect, test } from "vitest";
import { shortReason } from "./reasons";

test("what every reason says is left out", () => {
  const whole = "job is queueing. Job queue status: 3 execute job(s) queued before current job, session a is paused. For more information, please run 'csctl get jobs'.";
  expect(shortReason(whole)).toBe("3 execute job(s) queued before current job, session a is paused");
  expect(shortReason("held by ada")).toBe("held by ada");
});
