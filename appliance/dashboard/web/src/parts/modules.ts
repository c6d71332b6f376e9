/** Sums of a step's spans by module: pure. */

export interface TraceEvent {
  name: string;
  /** The pass, fwd or bwd, for a module's span. */
  cat?: string;
  /** Microseconds. */
  dur?: number;
}

export interface ModuleTime {
  module: string;
  direction: string;
  seconds: number;
}

const ENCLOSING = " = ";

/** Add spans up by module and pass, the longest first. Spans that enclose others, whose names say
 * so with " = ", are left out, or their time would count twice. */
export function sumByModule(events: readonly TraceEvent[]): ModuleTime[] {
  const sums = new Map<string, ModuleTime>();
  for (const { name, cat = "", dur = 0 } of events) {
    if (name.includes(ENCLOSING)) continue;
    const direction = name.endsWith(".fwd") || name.endsWith(".bwd") ? name.slice(-3) : cat;
    const module = name.replace(/\.(fwd|bwd)$/, "");
    const key = `${module}/${direction}`;
    const sum = sums.get(key) ?? { module, direction, seconds: 0 };
    sum.seconds += dur / 1e6;
    sums.set(key, sum);
  }
  return [...sums.values()].sort((a, b) => b.seconds - a.seconds);
}
