/** Series of values over steps: pure. */

export interface Point {
  step: number;
  /** Null where the program's value was not finite. */
  value: number | null;
}

export type Curve = readonly Point[];

/** Points of one curve that a page holds; ten times what it draws. */
export const MAX_HELD = 20_000;

/** Add new points behind old ones; a curve that grows for days is thinned out like that of the appliance. */
export function merge(old: Record<string, Curve>, fresh: Record<string, Curve>): Record<string, Curve> {
  const merged = { ...old };
  for (const [name, points] of Object.entries(fresh)) {
    const all = [...(merged[name] ?? []), ...points];
    merged[name] = all.length > MAX_HELD ? thin(all, MAX_HELD / 2) : all;
  }
  return merged;
}

/** Keep at most `most` points of a curve: of each stretch the smallest and the largest, so that spikes stay. */
export function thin(curve: Curve, most: number): Curve {
  if (curve.length <= most) return curve;
  const stretch = Math.ceil(curve.length / Math.floor(most / 2));
  const kept: Point[] = [];
  for (let start = 0; start < curve.length; start += stretch) {
    const part = curve.slice(start, start + stretch);
    const low = part.reduce((best, each) => (rank(each) < rank(best) ? each : best));
    const high = part.reduce((best, each) => (rank(each) > rank(best) ? each : best));
    if (low === high) kept.push(low);
    else kept.push(...(low.step < high.step ? [low, high] : [high, low]));
  }
  return kept;
}

const rank = (point: Point): number => point.value ?? -Infinity;

/** The steps at which a curve ceases to be finite. */
export function breaks(curve: Curve): number[] {
  return curve.filter((point, place) => point.value === null && curve[place - 1]?.value !== null).map((point) => point.step);
}

/** Points as the API tells them: steps count from 1 in each session of a job. */
export interface SessionPoint extends Point {
  session: number;
}

const EVALUATION = "evaluation: ";

/** Name the curves of sessions that evaluate apart from those of sessions that train. */
export function apart(series: Readonly<Record<string, readonly SessionPoint[]>>, evaluations: ReadonlySet<number>): Record<string, readonly SessionPoint[]> {
  const found: Record<string, SessionPoint[]> = {};
  for (const [name, points] of Object.entries(series))
    for (const point of points) (found[evaluations.has(point.session) ? EVALUATION + name : name] ??= []).push(point);
  return found;
}

/** The series that a curve is of, and whether evaluations made it. */
export function seriesOf(curve: string): { name: string; isEvaluation: boolean } {
  const isEvaluation = curve.startsWith(EVALUATION);
  return { name: isEvaluation ? curve.slice(EVALUATION.length) : curve, isEvaluation };
}

/** Count steps on through a job's sessions, behind what `old` has reached. */
export class StepCounter {
  private session = 0;
  private offset = 0;
  private last = 0;

  place(points: readonly SessionPoint[]): Point[] {
    return points.map((point) => {
      if (point.session !== this.session) {
        this.session = point.session;
        this.offset = this.last;
      }
      this.last = Math.max(this.last, this.offset + point.step);
      return { step: this.offset + point.step, value: point.value };
    });
  }
}

/** Put several curves on one axis of steps; a step that a curve lacks is a gap. A repeated step (a job
 * that went on from a checkpoint) keeps its last value. */
export function align(curves: readonly Curve[]): { x: number[]; values: (number | null)[][] } {
  const x = [...new Set(curves.flatMap((curve) => curve.map((point) => point.step)))].sort((a, b) => a - b);
  const values = curves.map((curve) => {
    const at = new Map(curve.map((point) => [point.step, point.value]));
    return x.map((step) => at.get(step) ?? null);
  });
  return { x, values };
}
