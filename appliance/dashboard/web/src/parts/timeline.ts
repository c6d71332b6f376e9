/** Where bars of a Gantt chart lie: pure geometry. */

export interface Bar {
  row: string;
  job: string;
  phase: string;
  start: number;
  end: number;
  isPlanned: boolean;
}

export interface Placed extends Bar {
  x: number;
  width: number;
  y: number;
}

const MIN_WIDTH = 3;

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
    return [{ ...bar, x, width: Math.max(end - x, MIN_WIDTH), y: row * span.rowHeight }];
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
