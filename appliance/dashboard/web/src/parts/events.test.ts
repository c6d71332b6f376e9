import { expect, test } from "vitest";
import { eventText } from "./events";

test("an event says its message, a change of phase without one what it means", () => {
  expect(eventText({ reason: "JobSucceeded", message: "success" })).toBe("success");
  expect(eventText({ reason: "JobQueued", message: "" })).toBe("It waits for its systems and nodes.");
  expect(eventText({ reason: "Other", message: "" })).toBe("");
});
