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
  const sums = new Map<string, { module: string; direction: string; microseconds: number }>();
  for (const { name, cat = "", dur = 0 } of events) {
    if (name.includes(ENCLOSING)) continue;
    const direction = name.endsWith(".fwd") || name.endsWith(".bwd") ? name.slice(-3) : cat;
    const module = name.replace(/\.(fwd|bwd)$/, "");
    const key = `${module}/${direction}`;
    const sum = sums.get(key) ?? { module, direction, microseconds: 0 };
    sum.microseconds += dur;
    sums.set(key, sum);
  }
  return [...sums.values()]
    .map(({ module, direction, microseconds }) => ({ module, direction, seconds: microseconds / 1e6 }))
    .sort((a, b) => b.seconds - a.seconds);
}
