import { expect, it } from "vitest";
import { barsOf, Fabric, measured, usedPorts } from "./state";
import { emptyEvents, fillBlock, FINISH, findCycle, HOP, latest, START, TAKE, TASK, TASK_END, type Trace, VECTOR } from "./trace";

type Event = [cycle: number, pe: number, kind: number, a: number, b: number, color: number, ports: number, more: number];

function trace(...list: Event[]): Trace {
  const events = emptyEvents(list.length);
  list.forEach(([cycle, pe, kind, a, b, color, ports, more], index) => {
    events.cycle[index] = cycle;
    events.pe[index] = pe;
    events.kind[index] = kind;
    events.a[index] = a;
    events.b[index] = b;
    events.color[index] = color;
    events.ports[index] = ports;
    events.more[index] = more;
  });
  return {
    ...{ architecture: "wse2", width: 2, height: 1, num_events: list.length, num_lost: 0, end: "", waiting: [], files: [] },
    ...{ classes: [], routes: [], code: new Uint32Array(2), routing: new Uint32Array(2), memory: { data: new Uint8Array(), starts: new Uint32Array(3) }, events, skipped: 0 },
  };
}

const run = trace(
  [10, 0, TASK, 5, 0, 255, 0, 0],
  [12, 0, START, 7, 4, 255, 2, 0],
  [14, 0, TASK_END, 0, 0, 255, 0, 0],
  [20, 1, HOP, 99, 6, 3, 17, 1],
  [22, 1, TAKE, 99, 2, 3, 2, 4],
  [25, 0, FINISH, 7, 4, 255, 2, 0],
);

it("tells at each cycle who runs and what waits, forward and backward", () => {
  const fabric = new Fabric(run);
  const seen = [11, 13, 14, 15, 19, 20, 21, 22, 25, 13].map((cycle) => {
    fabric.goTo(cycle);
    return [fabric.task[0], fabric.operation[0], fabric.waiting[1]];
  });
  expect(seen).toEqual([
    [0, -1, 0],
    [0, 1, 0],
    [-1, 1, 1],
    [-1, 1, 1],
    [-1, 1, 1],
    [-1, 1, 1],
    [-1, 1, 1],
    [-1, 1, 0],
    [-1, -1, 0],
    [0, 1, 0],
  ]);
});

it("measures each PE over a window of cycles", () => {
  const over = (what: Parameters<typeof measured>[1], from: number, to: number): number[] => [...measured(run, what, from, to, new Float32Array(2))];
  expect(over("traffic", 0, 100)).toEqual([0, 1]);
  expect(over("waiting", 0, 21)).toEqual([0, 6]);
  expect(over("waiting", 21, 22)).toEqual([0, 2]);
  expect(over("occupancy", 0, 100)).toEqual([0, 5]);
  expect(over("work", 0, 100)).toEqual([5, 0]);
});

it("knows the ports that wavelets took", () => {
  expect(usedPorts(run)[1 * 24 + 3]).toBe(17);
});

it("gives a PE's bars, those that are open included", () => {
  const bars = barsOf(run, 0, 13, 100, 10).map(({ lane, from, to }) => [lane, from, to]);
  expect(bars).toEqual([
    [0, 10, 14],
    [4, 12, 25],
  ]);
  expect(barsOf(run, 0, 11, 13, 10).map(({ lane }) => lane)).toEqual([0, 4]);
  const vector = trace([3, 1, VECTOR, 1, 9, 255, 0, 0]);
  expect(barsOf(vector, 1, 10, 20, 10)).toEqual([{ lane: 1, from: 3, to: 12, event: 0 }]);
});

it("reads a block's columns, and no other block", () => {
  const data = new Uint8Array(40);
  const view = new DataView(data.buffer);
  view.setUint32(4, 7, true);
  view.setUint32(12, 300, true);
  data.set([1, 6], 32);
  const events = emptyEvents(2);
  fillBlock(events, 0, data, 2, 1e10);
  expect([...events.cycle]).toEqual([1e10, 1e10 + 7]);
  expect([...events.pe]).toEqual([0, 300]);
  expect([...events.kind]).toEqual([1, 6]);
  expect(() => fillBlock(events, 0, data, 3, 0)).toThrow("40 bytes instead of 60");
});

it("finds cycles, and the latest blocks that fit", () => {
  expect([9, 10, 11, 26].map((cycle) => findCycle(run.events, cycle))).toEqual([0, 0, 1, 6]);
  const blocks = [5, 5, 5].map((num_events) => ({ num_events, first_cycle: 0, last_cycle: 0 }));
  expect([20, 11, 5, 1].map((most) => latest(blocks, most))).toEqual([0, 1, 2, 3]);
});
