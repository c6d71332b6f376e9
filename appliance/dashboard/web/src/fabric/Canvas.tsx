/** The grid: a canvas that is drawn anew for each cycle. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { heat } from "../parts/heat";
import { isDark } from "../parts/theme";
import { colorOf, drawGround, drawHeat, drawMoving, drawRoutes, type View } from "./draw";
import { type Fabric, type Measure, measured } from "./state";
import type { Trace } from "./trace";

const MOST_HEIGHT = 640;
const MOST_CELL = 96;
const MOST_SIDE = 8192;

interface Props {
  trace: Trace;
  state: Fabric;
  used: Uint8Array;
  colors: readonly number[];
  time: number;
  color: number;
  measure: Measure | "none";
  /** Cycles that the heat tells of; 0 for all. */
  span: number;
  selected: number;
  onSelect: (pe: number) => void;
}

export function Canvas(props: Props): JSX.Element {
  const { trace, state, used, time, color, measure, span, selected } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [zoom, setZoom] = useState(1);
  const dark = isDark.value;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const cell = cellOf(trace, width, zoom);
  const view: View = { cell, color, selected, isDark: dark };
  const sides: [number, number] = [Math.ceil(trace.width * cell), Math.ceil(trace.height * cell)];
  const ground = useMemo(() => {
    const layer = document.createElement("canvas");
    [layer.width, layer.height] = sides;
    const context = layer.getContext("2d");
    if (context && cell > 0) drawGround(context, trace, view);
    return layer;
  }, [trace, cell, dark]);
  const routes = useMemo(() => {
    const layer = document.createElement("canvas");
    [layer.width, layer.height] = sides;
    const context = layer.getContext("2d");
    if (context && cell > 0) drawRoutes(context, trace, used, view);
    return layer;
  }, [trace, used, cell, color]);
  const values = useMemo(() => new Float32Array(trace.width * trace.height), [trace]);
  const most = useMemo(() => (measure === "none" ? 0 : scaleOf(trace, measure, span, values)), [trace, measure, span]);
  const layer = useMemo(() => heatLayer(trace), [trace]);

  const cycle = Math.floor(time);
  useEffect(() => {
    if (measure === "none") return;
    const from = span ? cycle - span + 1 : 0;
    measured(trace, measure, from, span ? cycle : Number.MAX_SAFE_INTEGER, values);
    drawHeat(layer.image, values, most);
    layer.context.putImageData(layer.image, 0, 0);
  }, [trace, measure, span, most, span ? cycle : 0]);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || cell <= 0) return;
    state.goTo(cycle);
    context.drawImage(ground, 0, 0);
    if (measure !== "none") {
      context.imageSmoothingEnabled = false;
      context.drawImage(layer.canvas, 0, 0, trace.width * cell, trace.height * cell);
    }
    context.drawImage(routes, 0, 0);
    drawMoving(context, trace, state, view, time);
  });

  return (
    <>
      <div class="scroll fabric" ref={box} tabIndex={0} role="region" aria-label="Grid, to be scrolled">
        <canvas
          ref={canvas}
          width={sides[0]}
          height={sides[1]}
          tabIndex={0}
          role="img"
          aria-label={describe(props, cycle)}
          onClick={(event) => props.onSelect(peAt(trace, cell, event.offsetX, event.offsetY))}
          onKeyDown={(event) => {
            const next = step(trace, selected, event.key);
            if (next === undefined) return;
            event.preventDefault();
            props.onSelect(next);
          }}
        />
      </div>
      <div class="legend">
        {props.colors.map((each) => (
          <span key={each}>
            <span class="swatch" style={{ background: colorOf(each) }} /> color {each}
          </span>
        ))}
        <span>
          <span class="swatch" style={{ background: dark ? "#5fd08b" : "#17733a" }} /> a task runs
        </span>
        <span>
          <span class="swatch" style={{ background: dark ? "#ff8a80" : "#b3261e" }} /> wavelets wait
        </span>
        {measure !== "none" && most === 0 && <span>heat: 0 everywhere</span>}
        {measure !== "none" && most > 0 && (
          <span>
            heat 0{" "}
            <span style={{ display: "inline-flex", width: "6rem", height: ".75rem", verticalAlign: "-1px" }} aria-hidden="true">
              {Array.from({ length: 16 }, (_, place) => (
                <span key={place} style={{ flex: "1", background: heat(place / 15) }} />
              ))}
            </span>{" "}
            {most.toLocaleString()}
          </span>
        )}
        <label class="check">
          Size
          <input type="range" min={1} max={8} step={0.5} value={zoom} aria-label="Size of the grid" onInput={(event) => setZoom(Number(event.currentTarget.value))} />
        </label>
      </div>
    </>
  );
}

function cellOf(trace: Trace, width: number, zoom: number): number {
  const fitting = Math.min((width - 2) / trace.width, MOST_HEIGHT / trace.height, MOST_CELL);
  const most = MOST_SIDE / Math.max(trace.width, trace.height);
  return width > 0 ? Math.min(Math.max(fitting, 1) * zoom, most) : 0;
}

/** The largest number that the heat shows: of a window that moves, it is the most of the busiest ones. */
function scaleOf(trace: Trace, measure: Measure, span: number, values: Float32Array): number {
  const largest = (): number => values.reduce((sum, each) => Math.max(sum, each), 0);
  const { events } = trace;
  if (!span) {
    measured(trace, measure, 0, Number.MAX_SAFE_INTEGER, values);
    return largest();
  }
  let most = 0;
  for (let sample = 1; sample <= 64; sample += 1) {
    const cycle = events.cycle[Math.floor((events.length * sample) / 64) - 1] ?? 0;
    measured(trace, measure, cycle - span + 1, cycle, values);
    most = Math.max(most, largest());
  }
  return most;
}

interface HeatLayer {
  canvas: HTMLCanvasElement;
  context: CanvasRenderingContext2D;
  image: ImageData;
}

function heatLayer(trace: Trace): HeatLayer {
  const canvas = document.createElement("canvas");
  canvas.width = trace.width;
  canvas.height = trace.height;
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  return { canvas, context, image: context.createImageData(trace.width, trace.height) };
}

function describe({ trace, state, measure, selected }: Props, cycle: number): string {
  let [working, waiting] = [0, 0];
  for (let pe = 0; pe < state.task.length; pe += 1) {
    working += Number((state.task[pe] ?? -1) >= 0);
    waiting += state.waiting[pe] ?? 0;
  }
  const chosen = selected < 0 ? "no PE is chosen" : `PE (${selected % trace.width}, ${Math.floor(selected / trace.width)}) is chosen`;
  return `Grid of ${trace.width} x ${trace.height} PEs at cycle ${cycle}: ${working} run a task, ${waiting} wavelets wait; ${chosen}; heat: ${measure}`;
}

function peAt(trace: Trace, cell: number, x: number, y: number): number {
  const [column, row] = [Math.min(Math.floor(x / cell), trace.width - 1), Math.min(Math.floor(y / cell), trace.height - 1)];
  return row * trace.width + column;
}

const KEYS: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The PE that an arrow key leads to. */
function step(trace: Trace, selected: number, key: string): number | undefined {
  const move = KEYS[key];
  if (!move) return undefined;
  if (selected < 0) return 0;
  const column = Math.min(Math.max((selected % trace.width) + move[0], 0), trace.width - 1);
  const row = Math.min(Math.max(Math.floor(selected / trace.width) + move[1], 0), trace.height - 1);
  return row * trace.width + column;
}
