import { expect, test } from "vitest";
import { inOrder, outputTitle } from "./outputs";

const titles = { output_values_1: "learning rate" };

test("an output is called by its title, else by its own name", () => {
  expect(outputTitle("output_values_1", titles)).toBe("learning rate");
  expect(outputTitle("output_token_accuracy", titles)).toBe("token accuracy");
  expect(outputTitle("samples_per_second", {})).toBe("samples per second");
});

test("losses come first, the rate and what the pods use last", () => {
  const names = ["pods_memory", "samples_per_second", "output_values_1", "output_loss"];
  expect(inOrder(names, titles)).toEqual(["output_loss", "output_values_1", "samples_per_second", "pods_memory"]);
});
