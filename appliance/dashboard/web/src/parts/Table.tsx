/** A table that scrolls sideways where it must, and whose rows are cards on a phone. */

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

const ROLES: Record<string, string> = { THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TD: "cell" };

/** A card shows beside each value what its column is called. The roles are said aloud, as browsers forget them where
 * the parts of a table are laid out as blocks. */
function label(table: HTMLTableElement): void {
  const names = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) => cell.textContent ?? "");
  for (const part of table.querySelectorAll("thead, tbody, tr, td")) part.setAttribute("role", ROLES[part.tagName] ?? "");
  for (const head of table.tHead?.rows[0]?.cells ?? []) head.setAttribute("role", "columnheader");
  for (const row of table.tBodies[0]?.rows ?? [])
    [...row.cells].forEach((cell, index) => cell.setAttribute("data-label", names[index] ?? ""));
}

export function Table({ label: name, children }: { label?: string; children: ComponentChildren }): JSX.Element {
  const table = useRef<HTMLTableElement>(null);
  useLayoutEffect(() => {
    if (table.current) label(table.current);
  });
  return (
    <div class="scroll">
      <table class="cards" role="table" aria-label={name} ref={table}>
        {children}
      </table>
    </div>
  );
}
