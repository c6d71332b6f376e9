import { expect, it } from "vitest";
import { readable } from "./logline";

it("puts a record on one line", () => {
  const line = JSON.stringify({
    time: "2026-11-21T13:13:17.869Z",
    level: "INFO",
    logger: "appliance.coordinator.gang",
    message: "Pod registered",
    pod: "weight-0",
    step: 3,
  });
  expect(readable(line)).toBe("13:13:17.869 INFO    coordinator.gang: Pod registered  pod=weight-0  step=3");
});

it("leaves everything else as it is", () => {
  for (const line of ["plain text", "{not json", '{"a": 1}', ""]) expect(readable(line)).toBe(line);
});
