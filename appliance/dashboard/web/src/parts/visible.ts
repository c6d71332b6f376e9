/** Which rows of a scrolled list can be seen. */

export interface Span {
  first: number;
  end: number;
}

const MARGIN = 8;

/** Rows that a window of `height` pixels shows at `top`, and a few around them. */
export function visibleSpan(top: number, height: number, rowHeight: number, numRows: number): Span {
  const first = Math.max(Math.floor(top / rowHeight) - MARGIN, 0);
  const end = Math.min(Math.ceil((top + height) / rowHeight) + MARGIN, numRows);
  return { first: Math.min(first, Math.max(numRows - 1, 0)), end: Math.max(end, 0) };
}
