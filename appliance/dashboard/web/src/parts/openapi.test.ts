import { expect, test } from "vitest";
import { operationsOf, typeName } from "./openapi";

test("types read as a person names them", () => {
  expect(typeName({ $ref: "#/components/schemas/JobPage" })).toBe("JobPage");
  expect(typeName({ anyOf: [{ type: "integer" }, { type: "null" }] })).toBe("integer or null");
  expect(typeName({ type: "array", items: { type: "string" } })).toBe("list of string");
  expect(typeName({ enum: ["up", "drain"] })).toBe("up | drain");
  expect(typeName(undefined)).toBe("any");
});

test("every method of every path is an operation", () => {
  const answers = { "200": { content: { "application/json": { schema: { $ref: "#/a/Job" } } } }, "204": { description: "Done" } };
  const found = operationsOf({
    info: { title: "", description: "" },
    paths: { "/a": { get: { tags: ["jobs"], responses: answers }, post: { requestBody: { content: { "text/plain": {} } }, responses: {} } } },
  });
  expect(found.map(({ method, tag, body }) => [method, tag, body])).toEqual([
    ["GET", "jobs", ""],
    ["POST", "other", "text/plain"],
  ]);
  expect(found[0]?.answers).toEqual([
    ["200", "Job"],
    ["204", "Done"],
  ]);
});
