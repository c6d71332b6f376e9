import { expect, test } from "vitest";
import { blockedBy, shortBasis, shortReason } from "./reasons";

test("what every reason says is left out", () => {
  const whole = "job is queueing. Job queue status: 3 execute job(s) queued before current job, session a is paused. For more information, please run 'csctl get jobs'.";
  expect(shortReason(whole)).toBe("3 execute job(s) queued before current job, session a is paused");
  expect(shortReason("held by ada")).toBe("held by ada");
  const start = "1 of 2 system(s) requested, expected to start in 2 h 9 min (end of wsjob-a, by its own steps: step 36 of 6,000, 2 h 9 min to go)";
  expect(shortReason(`job is queueing. Job queue status: ${start}. For more information, please run 'csctl get jobs'.`)).toBe("1 of 2 system(s) requested");
});

test("where no job blocks, the reason is said as csctl says it", () => {
  expect(blockedBy({ blocking: [], kind: "Paused" })).toEqual({ ids: [], reason: "Paused" });
  expect(blockedBy({ blocking: ["wsjob-a"], kind: "Resources" })).toEqual({ ids: ["wsjob-a"], reason: "" });
});

test("a basis is short beside the job that it is about", () => {
  expect(shortBasis("end of wsjob-abc, by its own steps: step 1 of 6, 5 s to go", ["wsjob-abc"])).toBe("by its own steps: step 1 of 6, 5 s to go");
  expect(shortBasis("end of wsjob-abc, which waits too", ["wsjob-def"])).toBe("end of wsjob-abc, which waits too");
  expect(shortBasis("work of all jobs ahead, spread over all systems", [])).toBe("work of all jobs ahead, spread over all systems");
});
