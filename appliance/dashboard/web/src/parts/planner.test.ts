import { expect, test } from "vitest";
import { FIRST, memoryNote, PUBLISHED, publishedOf, questionOf, searchOf, withModel } from "./planner";

test("a question goes into the address and comes back", () => {
  const question = { layers: "80", hidden: "8192", gated: "true", machine: "cs3", systems: "4" };
  expect(questionOf(`?${searchOf(question)}`)).toEqual(question);
});

test("an address without a question asks the first one, what it does not know is left out", () => {
  expect(questionOf("")).toEqual(FIRST);
  expect(questionOf("?tab=2")).toEqual(FIRST);
  expect(questionOf("?layers=2&hidden=&tab=2")).toEqual({ layers: "2" });
});

test("each published model is found again by its inputs, and no two are alike", () => {
  for (const model of PUBLISHED) expect(publishedOf(withModel(FIRST, model))?.name).toBe(model.name);
  expect(publishedOf({ ...FIRST, layers: "25" })).toBeUndefined();
});

test("another model leaves nothing of the last one and keeps how it is trained", () => {
  const t5 = PUBLISHED.find(({ name }) => name === "T5 11B")!;
  const gpt = PUBLISHED.find(({ name }) => name === "Cerebras-GPT 13B")!;
  const asked = withModel(withModel({ ...FIRST, machine: "cs3", systems: "4", batch: "64" }, t5), gpt);
  expect(asked).toEqual({ ...gpt.inputs, machine: "cs3", systems: "4", batch: "64" });
});

test("memory that is too small is explained", () => {
  const memory = { working_bytes: 30e9, capacity_bytes: 36e9, boundary_bytes: 5e9, spills: false };
  expect(memoryNote(memory)).toBe("What waits for the backward pass stays on the wafer.");
  expect(memoryNote({ ...memory, boundary_bytes: 49e9, spills: true })).toMatch(/is more than the wafer holds: it leaves the wafer and returns/);
  expect(memoryNote({ ...memory, boundary_bytes: 9e9, spills: true })).toMatch(/does not fit beside the 30 GB of the widest layer step/);
});
