/** Cycles by source line: which lines take the time, on all PEs or on one. As `cs_trace profile` counts them. */

import { laneOf } from "./state";
import { FINISH, lineOf, placeOf, TASK, TASK_END, type Trace, VECTOR } from "./trace";

export interface LineCost {
  /** File and line; empty where they are not known. */
  place: string;
  text: string;
  /** How often a task or an operation began there. */
  runs: number;
  /** Cycles of a task's code but for its operations, at the task's line. */
  scalar: number;
  /** Cycles of operations over memory. */
  memory: number;
  /** Cycles from start to end of operations that may wait; those of microthreads are beside the task. */
  fabric: number;
}

export const cyclesOf = (cost: LineCost): number => cost.scalar + cost.memory + cost.fabric;

interface Open {
  from: number;
  cost: LineCost;
}

/** The lines of one PE, or of all (-1), the most cycles first. */
export function profileOf(trace: Trace, pe: number): LineCost[] {
  const { events } = trace;
  const found = new Map<string, LineCost>();
  const open = new Map<number, Open>();
  const costAt = (place: number, counter: number): LineCost => {
    const line = lineOf(trace, place, counter);
    const name = placeOf(trace, line);
    const known = found.get(name);
    if (known) return known;
    const made = { place: name, text: line?.[4] ?? line?.[0] ?? "", runs: 0, scalar: 0, memory: 0, fabric: 0 };
    found.set(name, made);
    return made;
  };
  const taskOf = (place: number): Open | undefined => open.get(place * LANES);
  const close = (place: number, lane: number, at: number): void => {
    const begun = open.get(place * LANES + lane);
    if (!begun) return;
    open.delete(place * LANES + lane);
    const length = Math.max(at - begun.from, 1);
    if (lane === 0) begun.cost.scalar += length;
    else begun.cost.fabric += length;
    const task = taskOf(place);
    if (lane === 1 && task && task.from <= begun.from) task.cost.scalar -= length;
  };
  for (let index = 0; index < events.length; index += 1) {
    const kind = events.kind[index] ?? 0;
    const place = events.pe[index] ?? 0;
    if (kind < TASK || (pe >= 0 && place !== pe)) continue;
    const cycle = events.cycle[index] ?? 0;
    const lane = laneOf(kind, events.ports[index] ?? 0);
    const isEnd = kind === TASK_END || kind === FINISH;
    if (kind === VECTOR) {
      const cost = costAt(place, events.a[index] ?? 0);
      const length = Math.max(events.b[index] ?? 0, 1);
      cost.runs += 1;
      cost.memory += length;
      const task = taskOf(place);
      if (task) task.cost.scalar -= length;
      continue;
    }
    close(place, lane, cycle);
    if (isEnd) continue;
    const cost = costAt(place, events.a[index] ?? 0);
    cost.runs += 1;
    open.set(place * LANES + lane, { from: cycle, cost });
  }
  const last = events.cycle[events.length - 1] ?? 0;
  for (const key of [...open.keys()].sort((one, other) => (other % LANES) - (one % LANES))) close(Math.floor(key / LANES), key % LANES, last);
  return [...found.values()].sort((one, other) => cyclesOf(other) - cyclesOf(one) || one.place.localeCompare(other.place));
}

/** Tracks of a PE: its tasks, the main thread's operations, eight microthreads. */
const LANES = 16;
