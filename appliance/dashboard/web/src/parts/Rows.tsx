/** A long list of which only the visible rows exist, and are known. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Span, visibleSpan } from "./visible";

export const ROW_HEIGHT = 44;
const HEAD_HEIGHT = 34;

interface Column<T> {
  name: string;
  /** A track of CSS grid, as in `2fr` or `8rem`. */
  width: string;
  cell: (item: T) => ComponentChildren;
}

export type { Column };

export function Rows<T>(props: {
  label: string;
  total: number;
  /** A row; undefined while it is on its way. */
  at: (index: number) => T | undefined;
  keyOf: (item: T) => string;
  columns: readonly Column<T>[];
  /** Told which rows are seen, to fetch them. */
  onSpan?: (first: number, end: number) => void;
  maxHeight?: string;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [span, setSpan] = useState<Span>({ first: 0, end: 40 });
  const { total, columns, onSpan } = props;
  const template = columns.map((each) => each.width).join(" ");
  const end = Math.min(span.end, total);
  const first = Math.min(span.first, end);

  const measure = (): void => {
    const element = box.current;
    if (!element) return;
    const next = visibleSpan(element.scrollTop, element.clientHeight, ROW_HEIGHT, total);
    setSpan((old) => (old.first === next.first && old.end === next.end ? old : next));
  };
  useEffect(measure, [total]);
  useEffect(() => onSpan?.(first, end));

  return (
    <div
      class="rows"
      ref={box}
      role="table"
      aria-label={props.label}
      aria-rowcount={total + 1}
      tabIndex={0}
      onScroll={measure}
      style={{ maxHeight: props.maxHeight ?? "70vh" }}
    >
      <div role="rowgroup">
        <div class="head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template, height: `${HEAD_HEIGHT}px` }}>
          {columns.map((each) => (
            <span role="columnheader" key={each.name}>
              {each.name}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" style={{ paddingTop: `${first * ROW_HEIGHT}px`, height: `${total * ROW_HEIGHT}px` }}>
        {Array.from({ length: end - first }, (_, offset) => {
          const item = props.at(first + offset);
          return (
            <div
              class="row"
              role="row"
              aria-rowindex={first + offset + 2}
              key={item === undefined ? `row-${first + offset}` : props.keyOf(item)}
              style={{ gridTemplateColumns: template }}
            >
              {columns.map((each, index) => (
                <span role="cell" key={each.name}>
                  {item === undefined ? index === 0 && <span class="quiet">...</span> : each.cell(item)}
                </span>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}
