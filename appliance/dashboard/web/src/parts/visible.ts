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

interface Scrolled {
  scrollTop: number;
  scrollHeight: number;
  clientHeight: number;
}

const PAGE = 0.9;

/** Where a key takes a list, null for keys that do not scroll. The list goes there at once: the browser's own
 * scrolling is an animation, which rows that come and go on its way can end early. */
export function scrolledBy(key: string, { scrollTop, scrollHeight, clientHeight }: Scrolled): number | null {
  const last = Math.max(scrollHeight - clientHeight, 0);
  const to = { Home: 0, End: last, PageUp: scrollTop - PAGE * clientHeight, PageDown: scrollTop + PAGE * clientHeight }[key];
  return to === undefined ? null : Math.min(Math.max(to, 0), last);
}
