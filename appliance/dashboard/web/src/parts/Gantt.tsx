/** Who held which system when, and who is planned to. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { clock, duration } from "../format";
import { now } from "../live";
import { type Bar, placeBars, spanOf, ticks } from "./timeline";
import { seriesColor } from "./basics";

const ROW = 26;
const LEFT = 110;
const TOP = 22;

export function Gantt({ rows, bars }: { rows: readonly string[]; bars: readonly Bar[] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(900);
  const [, go] = useLocation();
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(Math.max(element.clientWidth, 480)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const present = now.value;
  const { from, to } = spanOf(bars, present);
  const inner = width - LEFT - 8;
  const placed = placeBars(bars, rows, { from, to, width: inner, rowHeight: ROW });
  const height = TOP + rows.length * ROW + 6;
  const xOf = (at: number): number => LEFT + ((at - from) / (to - from)) * inner;

  return (
    <div class="scroll" ref={box}>
      <svg width={width} height={height} role="group" aria-label="Jobs on systems over time">
        {ticks(from, to, inner).map((at) => (
          <g key={at}>
            <line x1={xOf(at)} x2={xOf(at)} y1={TOP - 4} y2={height} stroke="var(--line)" />
            <text class="quiet" x={xOf(at)} y={12} text-anchor="middle">
              {clock(at)}
            </text>
          </g>
        ))}
        {rows.map((row, index) => (
          <text key={row} x={LEFT - 8} y={TOP + index * ROW + 17} text-anchor="end">
            {row}
          </text>
        ))}
        {placed.map((bar) => (
          <a
            key={`${bar.job}/${bar.row}/${bar.start}`}
            href={`/jobs/${bar.job}`}
            aria-label={label(bar)}
            onClick={(event) => {
              event.preventDefault();
              go(`/jobs/${bar.job}`);
            }}
          >
            <rect
              x={LEFT + bar.x}
              y={TOP + bar.y + 3}
              width={bar.width}
              height={ROW - 6}
              rx={4}
              fill={bar.isPlanned ? "none" : colorOf(bar.job)}
              stroke={colorOf(bar.job)}
              stroke-dasharray={bar.isPlanned ? "4 3" : undefined}
              opacity={bar.phase === "FAILED" || bar.phase === "CANCELLED" ? 0.45 : 1}
            />
            <title>{label(bar)}</title>
          </a>
        ))}
        <line x1={xOf(present)} x2={xOf(present)} y1={TOP - 6} y2={height} stroke="var(--bad)" stroke-width={1.5} />
      </svg>
    </div>
  );
}

const label = (bar: Bar): string =>
  bar.isPlanned
    ? `${bar.job}: expected to start at ${clock(bar.start)}${Number.isFinite(bar.end) ? `, to run for ${duration((bar.end - bar.start) / 1000)}` : ""}`
    : `${bar.job} on ${bar.row}: ${bar.phase}, ${clock(bar.start)}, ${duration((bar.end - bar.start) / 1000)}`;

function colorOf(job: string): string {
  let sum = 0;
  for (const letter of job) sum = (sum * 31 + letter.charCodeAt(0)) >>> 0;
  return seriesColor(sum);
}
