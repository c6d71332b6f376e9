/** Lines over steps or time, drawn by uPlot on a canvas. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock } from "../format";
import { axisTimes } from "./timeline";
import { isDark } from "./theme";
import { seriesColor } from "./basics";

export interface Series {
  name: string;
  /** One value for each x; null leaves a gap. */
  values: (number | null)[];
  color?: string;
  dash?: number[];
}

interface Props {
  /** What the picture shows, for those who cannot see it. */
  title: string;
  x: number[];
  series: Series[];
  xLabel: string;
  /** Whether x counts seconds since 1970. */
  isTime?: boolean;
  format: (value: number) => string;
  height?: number;
  isLog?: boolean;
  isLogX?: boolean;
  /** How x is written, where it counts neither steps nor time. */
  formatX?: (value: number) => string;
  /** The values of x that are named; those that fit if left out. */
  xTicks?: number[];
  /** Values of x that a red line marks: there a curve ceases to be finite. */
  marks?: readonly number[];
  /** Fixed ends of the y axis. */
  range?: [number, number];
}

const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A colour of the theme as the canvas understands it: `light-dark()` is resolved by an element. */
function resolved(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color || css(name);
}

/** Ends of a logarithmic axis just beyond what is drawn; uPlot's own go on to the next power of ten. */
const closely = (_: uPlot, least: number | null, most: number | null): [number, number] => [(least ?? 1) / 1.1, (most ?? 1) * 1.1];

/** Distances between numbers of an axis that counts steps or systems: there is no step 2.5. */
const WHOLE = [0, 1, 2, 3, 4, 5, 6].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power));

/** Room for a whole number and a gap, in pixels: on a phone twelve steps still have six numbers. */
const room = (_: uPlot, _axis: number, _least: number, most: number): number => 16 + 8 * String(Math.round(most)).length;

/** Draw a line from top to bottom at each mark. */
function drawMarks(plot: uPlot, marks: readonly number[]): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = resolved("--bad");
  ctx.setLineDash([6, 4]);
  ctx.lineWidth = 2;
  for (const mark of marks) {
    const at = plot.valToPos(mark, "x", true);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function options(props: Props, width: number): uPlot.Options {
  const quiet = resolved("--quiet");
  const line = resolved("--line");
  const formatX = props.formatX ?? String;
  const axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
  return {
    width,
    height: props.height ?? 220,
    cursor: { drag: { x: true, y: false } },
    legend: { live: true },
    hooks: { draw: [(plot) => drawMarks(plot, props.marks ?? [])] },
    scales: {
      x: { time: props.isTime ?? false, distr: props.isLogX ? 3 : 1, ...(props.isLogX ? { range: closely } : {}) },
      y: { distr: props.isLog ? 3 : 1, ...(props.range ? { range: props.range } : {}) },
    },
    axes: [
      {
        ...axis,
        label: props.xLabel,
        labelSize: 20,
        size: props.isTime ? 46 : 34,
        space: props.isTime ? 64 : 50,
        ...(props.isTime || props.formatX ? {} : { incrs: WHOLE, space: room }),
        ...(props.isTime ? { values: (_: uPlot, ticks: number[]) => axisTimes(ticks.map((tick) => tick * 1000), Date.now()) } : {}),
        ...(props.formatX ? { values: (_: uPlot, ticks: (number | null)[]) => ticks.map((tick) => (tick === null ? "" : formatX(tick))) } : {}),
        ...(props.xTicks ? { splits: () => props.xTicks ?? [], values: (_: uPlot, ticks: number[]) => ticks.map(formatX), filter: (_: uPlot, ticks: number[]) => ticks } : {}),
      },
      { ...axis, size: 64, space: 32, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : props.format(tick))) },
    ],
    series: [
      { label: props.xLabel, ...(props.formatX ? { value: (_: uPlot, at: number | null) => (at === null ? "-" : formatX(at)) } : {}), ...(props.isTime ? { value: (_: uPlot, at: number | null) => (at === null ? "-" : clock(at * 1000)) } : {}) },
      ...props.series.map((each, index) => ({
        label: each.name,
        stroke: each.color ?? seriesColor(index),
        width: 2,
        ...(each.dash ? { dash: each.dash } : {}),
        spanGaps: false,
        value: (_: uPlot, value: number | null) => (value === null ? "-" : props.format(value)),
        points: { show: props.x.length < 40 },
      })),
    ],
  };
}


export function Chart(props: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const shape = `${props.series.map((each) => each.name).join("|")}/${props.isLog}/${isDark.value}/${props.marks?.join(",")}`;
  const data: uPlot.AlignedData = [props.x, ...props.series.map((each) => each.values)];

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const made = new uPlot(options(props, Math.max(element.clientWidth, 200)), data, element);
    plot.current = made;
    const observer = new ResizeObserver(() =>
      made.setSize({ width: Math.max(element.clientWidth, 200), height: props.height ?? 220 }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
    // The plot is made anew only when its lines or colours change; new values go in below.
  }, [shape]);

  useEffect(() => plot.current?.setData(data), [props.x, props.series]);

  return <div class="chart" ref={place} role="img" aria-label={describe(props)} />;
}

function describe(props: Props): string {
  const ends = props.series.map((each) => {
    const value = each.values.findLast((one) => one !== null);
    return value === undefined || value === null ? `${each.name}: none yet` : `${each.name}: ${props.format(value)}`;
  });
  return `${props.title}. Latest values: ${ends.join(", ")}.`;
}
