/** A long list of which only the visible rows exist, and are known. On narrow screens each row is a card. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Screen, screenSize } from "./screen";
import { scrolledBy, type Span, visibleSpan } from "./visible";

const HEAD_HEIGHT = 34;

interface Column<T> {
  name: string;
  /** A track of CSS grid, as in `2fr` or `8rem`. */
  width: string;
  cell: (item: T) => ComponentChildren;
  /** What the list can be sorted by here. */
  sort?: string;
  /** How much of a card it takes; without it a line with its name. */
  card?: "title" | "wide" | "actions";
}

/** By what a list is sorted; empty for its own order. */
interface Order {
  by: string;
  descending: boolean;
}

export type { Column, Order };

export function Rows<T>(props: {
  label: string;
  total: number;
  /** A row; undefined while it is on its way. */
  at: (index: number) => T | undefined;
  keyOf: (item: T) => string;
  columns: readonly Column<T>[];
  /** Height of every row, or card, in pixels. */
  heights: Readonly<Record<Screen, number>>;
  /** Told which rows are seen, to fetch them. */
  onSpan?: (first: number, end: number) => void;
  order?: Order;
  onOrder?: (order: Order) => void;
  maxHeight?: string;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [span, setSpan] = useState<Span>({ first: 0, end: 40 });
  const { total, columns, onSpan } = props;
  const rowHeight = props.heights[screenSize.value];
  const isCards = screenSize.value !== "desktop";
  const template = isCards ? undefined : columns.map((each) => each.width).join(" ");
  const end = Math.min(span.end, total);
  const first = Math.min(span.first, end);

  const measure = (): void => {
    const element = box.current;
    if (!element) return;
    const next = visibleSpan(element.scrollTop, element.clientHeight, rowHeight, total);
    setSpan((old) => (old.first === next.first && old.end === next.end ? old : next));
  };
  useEffect(measure, [total, rowHeight]);
  useEffect(() => onSpan?.(first, end));

  const onKey = (event: KeyboardEvent): void => {
    const element = box.current;
    if (!element || event.target !== element) return;
    const top = scrolledBy(event.key, element);
    if (top === null) return;
    event.preventDefault();
    element.scrollTop = top;
    measure();
  };

  return (
    <div
      class={isCards ? "rows cards" : "rows"}
      ref={box}
      role="table"
      aria-label={props.label}
      aria-rowcount={total + 1}
      tabIndex={0}
      onScroll={measure}
      onKeyDown={onKey}
      style={{ maxHeight: props.maxHeight ?? "70vh" }}
    >
      <div role="rowgroup">
        <div class="head" role="row" aria-rowindex={1} style={template ? { gridTemplateColumns: template, height: `${HEAD_HEIGHT}px` } : undefined}>
          {columns.map((each) => (
            <Head key={each.name} column={each} order={props.order} onOrder={props.onOrder} />
          ))}
        </div>
      </div>
      <div role="rowgroup" style={{ paddingTop: `${first * rowHeight}px`, height: `${total * rowHeight}px` }}>
        {Array.from({ length: end - first }, (_, offset) => {
          const item = props.at(first + offset);
          return (
            <div
              class="row"
              role="row"
              aria-rowindex={first + offset + 2}
              key={item === undefined ? `row-${first + offset}` : props.keyOf(item)}
              style={{ height: `${rowHeight}px`, ...(template ? { gridTemplateColumns: template } : {}) }}
            >
              {columns.map((each, index) => (
                <span role="cell" key={each.name} class={each.card} data-label={each.card === "title" ? undefined : each.name}>
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

function Head<T>({ column, order, onOrder }: { column: Column<T>; order: Order | undefined; onOrder: ((order: Order) => void) | undefined }): JSX.Element {
  const { sort } = column;
  if (!sort || !onOrder) return <span role="columnheader">{column.name}</span>;
  const isChosen = order?.by === sort;
  const next = (): Order => {
    if (!isChosen) return { by: sort, descending: false };
    return order.descending ? { by: "", descending: false } : { by: sort, descending: true };
  };
  return (
    <span role="columnheader" aria-sort={!isChosen ? "none" : order.descending ? "descending" : "ascending"}>
      <button class="plain sort" onClick={() => onOrder(next())} title={`Sort by ${column.name.toLowerCase()}`}>
        {column.name} <span aria-hidden="true">{!isChosen ? "\u2195" : order.descending ? "\u2193" : "\u2191"}</span>
      </button>
    </span>
  );
}
