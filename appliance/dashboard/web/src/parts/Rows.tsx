/** A long list of which only the visible rows exist. */

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
  items: readonly T[];
  keyOf: (item: T) => string;
  columns: readonly Column<T>[];
  /** Called when the end comes into view, to fetch more. */
  onEnd?: () => void;
  maxHeight?: string;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [span, setSpan] = useState<Span>({ first: 0, end: 40 });
  const { items, columns, onEnd } = props;
  const template = columns.map((each) => each.width).join(" ");

  const measure = (): void => {
    const element = box.current;
    if (!element) return;
    const next = visibleSpan(element.scrollTop, element.clientHeight, ROW_HEIGHT, items.length);
    setSpan((old) => (old.first === next.first && old.end === next.end ? old : next));
    if (onEnd && next.end >= items.length) onEnd();
  };
  useEffect(measure, [items.length]);

  return (
    <div
      class="rows"
      ref={box}
      role="table"
      aria-label={props.label}
      aria-rowcount={items.length + 1}
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
      <div role="rowgroup" style={{ paddingTop: `${span.first * ROW_HEIGHT}px`, height: `${items.length * ROW_HEIGHT}px` }}>
        {items.slice(span.first, span.end).map((item, offset) => (
          <div
            class="row"
            role="row"
            aria-rowindex={span.first + offset + 2}
            key={props.keyOf(item)}
            style={{ gridTemplateColumns: template }}
          >
            {columns.map((each) => (
              <span role="cell" key={each.name}>
                {each.cell(item)}
              </span>
            ))}
          </div>
        ))}
      </div>
    </div>
  );
}
