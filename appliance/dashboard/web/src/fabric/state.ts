/** What the fabric looks like at a cycle: who runs what, and what waits where. */

import { FINISH, HOP, HOST_IN, HOST_OUT, MAIN_THREAD, NUM_COLORS, SEND, START, TAKE, TASK, TASK_END, VECTOR, findCycle } from "./trace";
import type { Events, Trace } from "./trace";

const NOTHING = -1;

const waits = (kind: number): boolean => kind === HOP || kind === SEND || kind === TAKE || kind === HOST_OUT;

/** Where wavelets waited longer than they had to, in the order in which the waiting began. */
interface Waits {
  from: Float64Array;
  pe: Uint32Array;
}

function waitsOf(events: Events): Waits {
  const found: number[] = [];
  for (let index = 0; index < events.length; index += 1) if ((events.b[index] ?? 0) > 0 && waits(events.kind[index] ?? 0)) found.push(index);
  const from = (index: number): number => (events.cycle[index] ?? 0) - (events.b[index] ?? 0);
  found.sort((one, other) => from(one) - from(other));
  return { from: Float64Array.from(found, from), pe: Uint32Array.from(found, (index) => events.pe[index] ?? 0) };
}

/** The state of all PEs at a cycle; steps forward cheaply, backward by beginning anew. */
export class Fabric {
  /** Event by which the task that runs began, by PE; -1 where none runs. */
  readonly task: Int32Array;
  /** Event of the last operation of the main thread or a microthread that began and has not ended. */
  readonly operation: Int32Array;
  /** Wavelets that wait longer than they have to, by PE. */
  readonly waiting: Int32Array;
  /** First event after the cycle. */
  next = 0;
  private nextWait = 0;
  private cycle = Number.NEGATIVE_INFINITY;
  private readonly waits: Waits;

  constructor(private readonly trace: Trace) {
    const count = trace.width * trace.height;
    this.task = new Int32Array(count);
    this.operation = new Int32Array(count);
    this.waiting = new Int32Array(count);
    this.waits = waitsOf(trace.events);
    this.reset();
  }

  private reset(): void {
    this.task.fill(NOTHING);
    this.operation.fill(NOTHING);
    this.waiting.fill(0);
    this.next = this.nextWait = 0;
  }

  /** Go to the end of a cycle. */
  goTo(cycle: number): void {
    const { events } = this.trace;
    if (cycle < this.cycle) this.reset();
    this.cycle = cycle;
    while (this.next < events.length && (events.cycle[this.next] ?? 0) <= cycle) {
      this.apply(events, this.next);
      this.next += 1;
    }
    const { from, pe } = this.waits;
    while (this.nextWait < from.length && (from[this.nextWait] ?? 0) <= cycle) {
      const place = pe[this.nextWait] ?? 0;
      this.waiting[place] = (this.waiting[place] ?? 0) + 1;
      this.nextWait += 1;
    }
  }

  private apply(events: Events, index: number): void {
    const pe = events.pe[index] ?? 0;
    const kind = events.kind[index] ?? 0;
    if (kind === TASK) this.task[pe] = index;
    else if (kind === TASK_END) {
      this.task[pe] = NOTHING;
      const running = this.operation[pe] ?? NOTHING;
      const isAlone = running >= 0 && events.kind[running] === START && events.ports[running] !== MAIN_THREAD;
      if (!isAlone) this.operation[pe] = NOTHING; // a microthread goes on without the task
    }
    else if (kind === START || kind === VECTOR) this.operation[pe] = index;
    else if (kind === FINISH) {
      const running = this.operation[pe] ?? NOTHING;
      if (running >= 0 && events.a[running] === events.a[index]) this.operation[pe] = NOTHING;
    } else if (waits(kind) && (events.b[index] ?? 0) > 0) this.waiting[pe] = (this.waiting[pe] ?? 0) - 1;
  }
}

export type Measure = "traffic" | "waiting" | "occupancy" | "work";

/** A number for each PE, over events in the cycles from `from` up to `to`. */
export function measured(trace: Trace, what: Measure, from: number, to: number, into: Float32Array): Float32Array {
  const { events } = trace;
  into.fill(0);
  const end = findCycle(events, to + 1);
  for (let index = findCycle(events, from); index < end; index += 1) {
    const pe = events.pe[index] ?? 0;
    const kind = events.kind[index] ?? 0;
    const before = into[pe] ?? 0;
    if (what === "traffic") {
      if (kind === HOP) into[pe] = before + 1;
    } else if (what === "waiting") {
      if (waits(kind)) into[pe] = before + (events.b[index] ?? 0);
    } else if (what === "occupancy") {
      if (waits(kind) || kind === HOST_IN) into[pe] = Math.max(before, ((events.more[index] ?? 0) & 127) + 1);
    } else if (kind === VECTOR) into[pe] = before + (events.b[index] ?? 0);
    else if (kind === FINISH) into[pe] = before + Math.max(events.b[index] ?? 0, 1);
    else if (kind === TASK) into[pe] = before + 1;
  }
  return into;
}

/** For each PE and color the ports that wavelets have left its router through. */
export function usedPorts(trace: Trace): Uint8Array {
  const { events } = trace;
  const used = new Uint8Array(trace.width * trace.height * NUM_COLORS);
  for (let index = 0; index < events.length; index += 1) {
    if (events.kind[index] !== HOP) continue;
    const place = (events.pe[index] ?? 0) * NUM_COLORS + (events.color[index] ?? 0);
    used[place] = (used[place] ?? 0) | (events.ports[index] ?? 0);
  }
  return used;
}

/** Colors that wavelets have, ascending. */
export function colorsIn(trace: Trace): number[] {
  const seen = new Set<number>();
  for (const color of trace.events.color) if (color < NUM_COLORS) seen.add(color);
  for (const routes of trace.routes) for (const route of routes) if (route.tx) seen.add(route.color);
  return [...seen].sort((one, other) => one - other);
}

export interface Bar {
  /** 0: tasks of the main thread; 1: its operations; 2 and more: microthreads 0 and more. */
  lane: number;
  from: number;
  to: number;
  event: number;
}

/** Tasks and operations of one PE that touch a stretch of cycles. */
export function barsOf(trace: Trace, pe: number, from: number, to: number, most: number): Bar[] {
  const { events } = trace;
  const bars: Bar[] = [];
  const open = new Map<number, Bar>();
  const close = (lane: number, at: number): void => {
    const bar = open.get(lane);
    open.delete(lane);
    if (bar && at >= from) bars.push({ ...bar, to: Math.max(at, bar.from + 1) });
  };
  for (let index = 0; index < events.length && bars.length < most; index += 1) {
    if (events.pe[index] !== pe) continue;
    const kind = events.kind[index] ?? 0;
    const cycle = events.cycle[index] ?? 0;
    if (kind < TASK) continue;
    if (cycle > to) {
      if (open.size === 0) break;
      if (kind !== TASK_END && kind !== FINISH) continue;
    }
    const lane = laneOf(kind, events.ports[index] ?? 0);
    if (kind === TASK_END || kind === FINISH) close(lane, cycle);
    else if (kind === VECTOR) {
      const length = Math.max(events.b[index] ?? 0, 1);
      if (cycle + length >= from) bars.push({ lane, from: cycle, to: cycle + length, event: index });
    } else {
      close(lane, cycle);
      open.set(lane, { lane, from: cycle, to: cycle, event: index });
    }
  }
  for (const lane of [...open.keys()]) close(lane, to);
  return bars;
}

/** The track of an event of a task or operation, as `Bar` counts them. */
export function laneOf(kind: number, thread: number): number {
  if (kind === TASK || kind === TASK_END) return 0;
  return kind === VECTOR || thread === MAIN_THREAD ? 1 : 2 + thread;
}

export const laneName = (lane: number): string => (lane === 0 ? "task" : lane === 1 ? "main thread" : `microthread ${lane - 2}`);
