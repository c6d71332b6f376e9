/** Who held which system when, and who is planned to. */

import type { JSX } from "preact";
import { useLocation } from "wouter-preact";
import { clock, duration } from "../format";
import { now } from "../live";
import { axisTimes, type Bar, placeBars, spanOf, stepTo, ticks } from "./timeline";
import { useWidth } from "./width";
import { seriesColor } from "./basics";

const ROW = 26;
const LEFT = 78;
const TOP = 36;
/** Half of a time's width: where it would stick out it is left out. */
const HALF_TIME = 20;

export function Gantt({ rows, bars }: { rows: readonly string[]; bars: readonly Bar[] }): JSX.Element {
  const [box, width] = useWidth(900, 280);
  const [, go] = useLocation();

  const present = now.value;
  const { from, to } = spanOf(bars, present);
  const inner = width - LEFT - 8;
  const placed = placeBars(bars, rows, { from, to, width: inner, rowHeight: ROW });
  const height = TOP + rows.length * ROW + 6;
  const shown = ticks(from, to, inner, 80).filter((at) => ((at - from) / (to - from)) * inner < inner - HALF_TIME);
  const times = axisTimes(shown, present);
  const onKey = (event: KeyboardEvent): void => {
    const bars = [...(event.currentTarget as SVGElement).querySelectorAll<SVGAElement>("a")];
    const next = bars[stepTo(event.key, bars.indexOf(document.activeElement as unknown as SVGAElement), bars.length)];
    if (!next) return;
    event.preventDefault();
    for (const bar of bars) bar.tabIndex = bar === next ? 0 : -1;
    next.focus();
  };
  const xOf = (at: number): number => LEFT + ((at - from) / (to - from)) * inner;

  return (
    <div class="scroll" ref={box}>
      <svg width={width} height={height} role="group" aria-label="Jobs on systems over time: the arrow keys go from job to job" onKeyDown={onKey}>
        {shown.map((at, index) => (
          <g key={at}>
            <line x1={xOf(at)} x2={xOf(at)} y1={TOP - 4} y2={height} stroke="var(--line)" />
            {times[index]?.split("\n").map((line, number) => (
              <text class="quiet" key={line} x={xOf(at)} y={28 - 14 * number} text-anchor="middle">
                {line}
              </text>
            ))}
          </g>
        ))}
        {rows.map((row, index) => (
          <text key={row} x={LEFT - 8} y={TOP + index * ROW + 17} text-anchor="end">
            {row}
          </text>
        ))}
        {placed.map((bar, index) => (
          <a
            tabIndex={index === 0 ? 0 : -1}
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
              fill-opacity={0.3}
              stroke={colorOf(bar.job)}
              stroke-dasharray={bar.isPlanned ? "4 3" : undefined}
              opacity={bar.phase === "FAILED" || bar.phase === "CANCELLED" ? 0.45 : 1}
            />
            <title>{label(bar)}</title>
            {bar.text && (
              <text x={LEFT + bar.textX} y={TOP + bar.y + 17}>
                {bar.text}
              </text>
            )}
          </a>
        ))}
        <line x1={xOf(present)} x2={xOf(present)} y1={TOP - 6} y2={height} stroke="var(--bad)" stroke-width={1.5} />
      </svg>
    </div>
  );
}

const called = (bar: Bar): string => (bar.name ? `${bar.name} (${bar.job})` : bar.job);

const label = (bar: Bar): string =>
  bar.isPlanned
    ? `${called(bar)}: expected to start at ${clock(bar.start)}${Number.isFinite(bar.end) ? `, to run for ${duration((bar.end - bar.start) / 1000)}` : ""}`
    : `${called(bar)} on ${bar.row}: ${bar.phase}, ${clock(bar.start)}, ${duration((bar.end - bar.start) / 1000)}`;

function colorOf(job: string): string {
  let sum = 0;
  for (const letter of job) sum = (sum * 31 + letter.charCodeAt(0)) >>> 0;
  return seriesColor(sum);
}
