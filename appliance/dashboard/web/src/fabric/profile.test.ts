import { expect, it } from "vitest";
import { cyclesOf, profileOf } from "./profile";
import { emptyEvents, FINISH, type Line, START, TASK, TASK_END, type Trace, VECTOR } from "./trace";

type Event = [cycle: number, pe: number, kind: number, a: number, b: number, thread: number];

const lines: Record<string, Line> = {
  5: ["main", 0, 3, 1, "fn main()"],
  6: ["main", 0, 4, 1, "@fadds(a, a, b);"],
  7: ["main", 0, 5, 1, "@fmovs(out, a);"],
};

function trace(...list: Event[]): Trace {
  const events = emptyEvents(list.length);
  list.forEach(([cycle, pe, kind, a, b, thread], index) => {
    events.cycle[index] = cycle;
    events.pe[index] = pe;
    events.kind[index] = kind;
    events.a[index] = a;
    events.b[index] = b;
    events.ports[index] = thread;
  });
  const code = { file: "pe.csl", memory_bytes: 0, tasks: [], symbols: [], lines };
  return {
    ...{ architecture: "wse2", width: 2, height: 1, num_events: list.length, num_lost: 0, end: "", waiting: [], files: ["pe.csl"] },
    ...{ classes: [code], routes: [], code: new Uint32Array(2), routing: new Uint32Array(2), memory: { data: new Uint8Array(), starts: new Uint32Array(3) }, events, skipped: 0 },
  };
}

const run = trace(
  [0, 0, TASK, 5, 0, 0],
  [2, 1, TASK, 5, 0, 0],
  [4, 0, VECTOR, 6, 10, 0],
  [14, 0, START, 7, 8, 8],
  [19, 0, FINISH, 7, 8, 8],
  [20, 0, START, 7, 8, 2],
  [22, 0, TASK_END, 0, 0, 0],
  [30, 0, FINISH, 7, 8, 2],
  [32, 1, TASK_END, 0, 0, 0],
);

it("counts a task's operations apart from its scalar code", () => {
  const shown = profileOf(run, 0).map((cost) => [cost.place, cost.scalar, cost.memory, cost.fabric, cost.runs]);
  expect(shown).toEqual([
    ["pe.csl:5", 0, 0, 15, 2],
    ["pe.csl:4", 0, 10, 0, 1],
    ["pe.csl:3", 7, 0, 0, 1],
  ]);
});

it("sums over all PEs, the most cycles first", () => {
  const costs = profileOf(run, -1);
  expect(costs.map((cost) => cost.place)).toEqual(["pe.csl:3", "pe.csl:5", "pe.csl:4"]);
  expect(costs.map(cyclesOf)).toEqual([37, 15, 10]);
});

it("ends what the trace does not see end with its last cycle", () => {
  const costs = profileOf(trace([0, 0, TASK, 5, 0, 0], [9, 1, TASK, 5, 0, 0]), 0);
  expect(costs.map(cyclesOf)).toEqual([9]);
});
