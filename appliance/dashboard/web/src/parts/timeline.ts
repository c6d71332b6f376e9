/** Where bars of a Gantt chart lie: pure geometry. */

export interface Bar {
  row: string;
  job: string;
  /** What people call the job; empty where it has no name. */
  name: string;
  phase: string;
  start: number;
  end: number;
  isPlanned: boolean;
}

export interface Placed extends Bar {
  x: number;
  width: number;
  y: number;
  /** What is written in the bar, or beside it if there is more room; empty where there is none. */
  text: string;
  textX: number;
}

const MIN_WIDTH = 3;
const MAX_PLANNED = 8;

export interface Plan {
  job: string;
  name: string;
  start: number;
  /** How long it is expected to run, in milliseconds; null when that cannot be said. */
  run: number | null;
}

/** Bars of jobs that are expected to start before `horizon`, the soonest first, each on a row of its own, as it is not
 * said on which systems. One whose end cannot be said has none. */
export function planned(starts: readonly Plan[], horizon: number): Bar[] {
  const soonest = starts
    .filter((each) => each.start <= horizon)
    .sort((a, b) => a.start - b.start)
    .slice(0, MAX_PLANNED);
  return soonest.map(({ job, name, start, run }, index) => ({
    row: `next ${index + 1}`,
    job,
    name,
    phase: "QUEUED",
    start,
    end: start + (run ?? Infinity),
    isPlanned: true,
  }));
}

const LEAST_AHEAD = 300_000;
const SHARE_AHEAD = 0.15;

/** The times to show: all that was, every planned start, and some of what comes then. Plans may reach beyond. */
export function spanOf(bars: readonly Bar[], present: number): { from: number; to: number } {
  const from = Math.min(present - 600_000, ...bars.map((each) => each.start));
  const last = Math.max(present + LEAST_AHEAD, ...bars.map((each) => (each.isPlanned ? each.start : each.end)));
  return { from, to: last + (last - from) * SHARE_AHEAD };
}

/** Place bars (times in milliseconds) between `from` and `to` on `width` pixels; others are left out. */
export function placeBars(
  bars: readonly Bar[],
  rows: readonly string[],
  span: { from: number; to: number; width: number; rowHeight: number },
): Placed[] {
  const scale = span.width / (span.to - span.from);
  const rowOf = new Map(rows.map((row, index) => [row, index]));
  return bars.flatMap((bar) => {
    const row = rowOf.get(bar.row);
    if (row === undefined || bar.end < span.from || bar.start > span.to) return [];
    const x = (Math.max(bar.start, span.from) - span.from) * scale;
    const end = (Math.min(bar.end, span.to) - span.from) * scale;
    return [{ ...bar, x, width: Math.max(end - x, MIN_WIDTH), y: row * span.rowHeight, text: "", textX: 0 }];
  }).map((bar, _, all) => written(bar, all, span.width));
}

const LETTER = 7.2;
const PAD = 6;
const LEAST_LETTERS = 4;

/** A bar with its text: inside where that fits, else beside it up to the next bar or the end, cut where it must be. */
function written(bar: Placed, all: readonly Placed[], width: number): Placed {
  const words = bar.name || bar.job;
  const next = Math.min(width, ...all.filter((each) => each.y === bar.y && each.x > bar.x).map((each) => each.x));
  const inside = bar.width - 2 * PAD;
  const beside = next - (bar.x + bar.width) - 2 * PAD;
  const isInside = inside >= words.length * LETTER || inside >= beside;
  const letters = Math.floor((isInside ? inside : beside) / LETTER);
  const text = letters >= words.length ? words : letters < LEAST_LETTERS ? "" : `${words.slice(0, letters - 1)}\u2026`;
  return { ...bar, text, textX: bar.x + PAD + (isInside ? 0 : bar.width) };
}

/** A time on an axis: hours and minutes, seconds where the step is shorter than a minute, and the day where it is new. */
export function axisTimes(times: readonly number[], now: number): string[] {
  const step = times.length > 1 ? (times[1] as number) - (times[0] as number) : 60_000;
  let day = new Date(now).toDateString();
  return times.map((time) => {
    const at = new Date(time);
    const words = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(step < 60_000 ? { second: "2-digit" } : {}) });
    const isNewDay = at.toDateString() !== day;
    day = at.toDateString();
    return isNewDay ? `${words}\n${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}` : words;
  });
}

const NICE_SECONDS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 21600, 43200, 86400, 604800];

/** Round times (milliseconds) about every `pixels` pixels. */
export function ticks(from: number, to: number, width: number, pixels = 110): number[] {
  const wanted = ((to - from) / 1000) * (pixels / width);
  const step = (NICE_SECONDS.find((each) => each >= wanted) ?? 604800) * 1000;
  const made: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) made.push(at);
  return made;
}

/** Which of so many things in a row the keyboard goes to from one of them; -1 for keys that go nowhere. */
export function stepTo(key: string, at: number, count: number): number {
  if (key === "Home") return count ? 0 : -1;
  if (key === "End") return count - 1;
  const next = key === "ArrowRight" || key === "ArrowDown" ? at + 1 : key === "ArrowLeft" || key === "ArrowUp" ? at - 1 : -1;
  return next >= 0 && next < count ? next : -1;
}
