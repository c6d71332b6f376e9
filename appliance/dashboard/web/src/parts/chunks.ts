/** Which parts of a long list are wanted, and which may be forgotten: pure. */

export const CHUNK = 100;
const MAX_KEPT = 12;

/** Offsets of the chunks that rows `first` to `end` lie in; the head of the list is always wanted. */
export function wantedChunks(first: number, end: number, total: number): number[] {
  const wanted = new Set([0]);
  const last = Math.min(end, total);
  for (let at = Math.floor(first / CHUNK) * CHUNK; at < last; at += CHUNK) wanted.add(at);
  return [...wanted];
}

/** Offsets of the chunks to forget, so that a list costs the same memory however far it was read. */
export function forgettable(kept: Iterable<number>, wanted: readonly number[]): number[] {
  const idle = [...kept].filter((at) => !wanted.includes(at));
  const middle = wanted.at(-1) ?? 0;
  idle.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
  return idle.slice(Math.max(MAX_KEPT - wanted.length, 0));
}
