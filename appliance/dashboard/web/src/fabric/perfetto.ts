/** A trace in Chrome's format, as Perfetto reads it: one microsecond stands for one clock cycle. */

import { barsOf, laneName } from "./state";
import { HOP, TASK, lineOf, placeOf } from "./trace";
import type { Trace } from "./trace";

/** PEs whose tasks are written; a file of more would be too large to open. */
const MOST_PES = 400;
const MOST_BARS = 2000;
const BUCKETS = 1000;

export function chromeTrace(trace: Trace, job: string): unknown {
  const found: unknown[] = [];
  const first = trace.events.cycle[0] ?? 0;
  const last = trace.events.cycle[trace.events.length - 1] ?? 0;
  const active = new Set<number>();
  for (let index = 0; index < trace.events.length && active.size < MOST_PES; index += 1) if ((trace.events.kind[index] ?? 0) >= TASK) active.add(trace.events.pe[index] ?? 0);
  for (const pe of [...active].sort((one, other) => one - other)) found.push(...ofPe(trace, pe, first, last));
  found.push(...wavelets(trace, first, last));
  return { traceEvents: found, displayTimeUnit: "ns", otherData: { job, time: "simulated; 1 us stands for 1 clock cycle" } };
}

function ofPe(trace: Trace, pe: number, first: number, last: number): unknown[] {
  const name = `PE (${pe % trace.width}, ${Math.floor(pe / trace.width)})`;
  const found: unknown[] = [{ name: "process_name", ph: "M", pid: pe + 1, tid: 0, args: { name } }];
  const lanes = new Set<number>();
  for (const bar of barsOf(trace, pe, first, last, MOST_BARS)) {
    lanes.add(bar.lane);
    const line = lineOf(trace, pe, trace.events.a[bar.event] ?? 0);
    const title = bar.lane === 0 ? (line?.[0] ?? "task") : (line?.[4] || line?.[0] || "operation");
    found.push({ name: title, cat: laneName(bar.lane), ph: "X", ts: bar.from, dur: bar.to - bar.from, pid: pe + 1, tid: bar.lane, args: { source: placeOf(trace, line), function: line?.[0] ?? "" } });
  }
  for (const lane of lanes) found.push({ name: "thread_name", ph: "M", pid: pe + 1, tid: lane, args: { name: laneName(lane) } });
  return found;
}

function wavelets(trace: Trace, first: number, last: number): unknown[] {
  const { events } = trace;
  const width = Math.max(1, Math.ceil((last - first + 1) / BUCKETS));
  const counts = new Map<string, number>();
  for (let index = 0; index < events.length; index += 1) {
    if (events.kind[index] !== HOP) continue;
    const key = `${events.color[index]} ${Math.floor(((events.cycle[index] ?? 0) - first) / width)}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts].map(([key, count]) => {
    const [color, bucket] = key.split(" ").map(Number);
    return { name: `hops of color ${color} a cycle`, ph: "C", pid: 0, tid: 0, ts: first + (bucket ?? 0) * width, args: { hops: count / width } };
  });
}
