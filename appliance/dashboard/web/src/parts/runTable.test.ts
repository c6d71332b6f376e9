import { expect, test } from "vitest";
import type { Schemas } from "../api";
import { behind, commandLine, distinguishing, outputsOf, parametersOf, runsCsv, smoothed, toggled } from "./runTable";

const RUN: Schemas["Run"] = {
  id: "wflow-a", name: "", kind: "detached", session: "job-operator", user: "ada", uid: 1, labels: {}, array: "", index: null, phase: "RUNNING", message: "",
  argv: [], script: "", work_dir: "", environment_digest: "", git_commit: "", is_dirty: null, client_release: "", jobs: [], log_job: "", step: 0, num_steps: 0,
  last_values: {}, created_at: "2026-01-01T00:00:00Z", started_at: null, ended_at: null,
};
const run = (changes: Partial<Schemas["Run"]>): Schemas["Run"] => ({ ...RUN, ...changes });

test.each([
  [["python", "train.py", "--lr", "1e-3", "--bf16", "--seed=7"], { lr: "1e-3", bf16: "yes", seed: "7" }],
  [["x", "--shift", "-3", "--last"], { shift: "-3", last: "yes" }],
  [["x", "--a=", "--b", "--c", "-v"], { a: "", b: "yes", c: "yes" }],
  [["--", "sh", "-c", "true"], {}],
])("options of a command are parameters: %j", (argv, expected) => {
  expect(parametersOf(run({ argv }))).toEqual(expected);
});

test.each([
  [["python", "train.py", "--lr=1e-3"], "python train.py --lr=1e-3"],
  [["sh", "-c", "echo $X; ls"], "sh -c 'echo $X; ls'"],
  [["echo", "it's", ""], `echo 'it'"'"'s' ''`],
])("a command reads as one types it: %j", (argv, expected) => {
  expect(commandLine(argv)).toBe(expected);
});

test("labels are parameters, but for those that only name a run", () => {
  expect(parametersOf(run({ labels: { name: "a", array: "array-a", index: "3", lr: "2" }, argv: ["x", "--lr", "1"] }))).toEqual({ index: "3", lr: "2" });
});

test("only parameters in which runs differ have columns, also where one lacks them", () => {
  const runs = [run({ labels: { lr: "1", team: "nlp" } }), run({ labels: { lr: "2", team: "nlp", more: "x" } })];
  expect(distinguishing(runs)).toEqual(["lr", "more"]);
  expect(distinguishing(runs.slice(1))).toEqual([]);
});

test("losses are the first outputs and the rate is the last", () => {
  expect(outputsOf([run({ last_values: { "samples per second": 1, accuracy: 1 } }), run({ last_values: { "eval loss": 1 } })])).toEqual(["eval loss", "accuracy", "samples per second"]);
});

test("a file has every parameter and value, and no cell is a formula", () => {
  const text = runsCsv([run({ labels: { note: '=1,"x"', shift: "-3" }, last_values: { loss: -1.5 }, step: 4 }), run({ id: "wflow-b" })]);
  expect(text.split("\n")).toEqual([
    "run,name,phase,user,script,commit,created,ended,note,shift,step,last loss",
    `wflow-a,,RUNNING,ada,,,2026-01-01T00:00:00Z,,"'=1,""x""",-3,4,-1.5`,
    "wflow-b,,RUNNING,ada,,,2026-01-01T00:00:00Z,,,,,",
    "",
  ]);
});

test("eight runs are compared at most, the latest choices", () => {
  const eight = ["1", "2", "3", "4", "5", "6", "7", "8"];
  expect(toggled(eight, "9")).toEqual([...eight.slice(1), "9"]);
  expect(toggled(eight, "3")).toEqual(eight.filter((each) => each !== "3"));
});

test("curves of a run's jobs follow one another on one axis", () => {
  const curve = [{ step: 1, value: 3 }, { step: 4, value: 2 }];
  expect(behind([curve, [], curve]).map((each) => each.map((point) => point.step))).toEqual([[1, 4], [], [5, 8]]);
});

test("a smoothed curve begins at its first value, keeps gaps, and leaves a constant alone", () => {
  const curve = [{ step: 1, value: 4 }, { step: 2, value: null }, { step: 3, value: 0 }];
  expect(smoothed(curve, 0)).toBe(curve);
  expect(smoothed(curve, 0.5).map((each) => each.value)).toEqual([4, null, 4 / 3]);
  const constant = [1, 2, 3, 4].map((step) => ({ step, value: 2 }));
  for (const { value } of smoothed(constant, 0.9)) expect(value).toBeCloseTo(2, 12);
});
