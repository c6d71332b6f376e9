/** Draws the fabric: PEs, routes, heat, wavelets on their way. */

import { heat } from "../parts/heat";
import type { Fabric } from "./state";
import { HOP, NO_CODE, NUM_COLORS, SEND, findCycle } from "./trace";
import type { Trace } from "./trace";

/** Colours of the 24 colors; the eight of the charts, then lighter and darker ones. */
const BASE = ["#e8642c", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#d5a000", "#8a6fd1", "#7a8594"];
const MORE = ["#b23a00", "#4fa3d9", "#4fd1a8", "#8f3c6b", "#1c7fb5", "#9a7400", "#5a3fa8", "#4c5664"];
const LAST = ["#ff9a6b", "#00466e", "#00614a", "#f0b3d2", "#a8dcf8", "#ffd75e", "#c0aef0", "#b3bcc8"];
const COLORS = [...BASE, ...MORE, ...LAST];
export const colorOf = (color: number): string => COLORS[color % COLORS.length] ?? "#888888";

/** Steps of a port: west, east, south, north. */
const STEPS = [
  [-1, 0],
  [1, 0],
  [0, 1],
  [0, -1],
] as const;

export interface View {
  cell: number;
  /** Color that is shown alone; -1 for all. */
  color: number;
  selected: number;
  isDark: boolean;
}

const isShown = (view: View, color: number): boolean => view.color < 0 || view.color === color;

/** The PEs. */
export function drawGround(context: CanvasRenderingContext2D, trace: Trace, view: View): void {
  const { width, height } = trace;
  const { cell } = view;
  context.fillStyle = view.isDark ? "#12161c" : "#f6f7f9";
  context.fillRect(0, 0, width * cell, height * cell);
  context.fillStyle = view.isDark ? "#232c38" : "#e3e8ef";
  const inset = cell >= 6 ? Math.max(1, cell * 0.08) : 0;
  for (let pe = 0; pe < width * height; pe += 1) {
    if (trace.code[pe] === NO_CODE) continue;
    context.fillRect((pe % width) * cell + inset, Math.floor(pe / width) * cell + inset, cell - 2 * inset, cell - 2 * inset);
  }
}

/** The routes of the colors that are shown: thin as compiled, thick where wavelets have gone. */
export function drawRoutes(context: CanvasRenderingContext2D, trace: Trace, used: Uint8Array, view: View): void {
  if (view.cell < 6) return;
  for (let color = 0; color < NUM_COLORS; color += 1) if (isShown(view, color)) drawColor(context, trace, used, view, color);
}

function drawColor(context: CanvasRenderingContext2D, trace: Trace, used: Uint8Array, view: View, color: number): void {
  const { cell } = view;
  const middle = cell / 2 + shift(view, color);
  const configured = new Path2D();
  const taken = new Path2D();
  for (let pe = 0; pe < trace.width * trace.height; pe += 1) {
    const x = (pe % trace.width) * cell;
    const y = Math.floor(pe / trace.width) * cell;
    const wavelets = used[pe * NUM_COLORS + color] ?? 0;
    const route = trace.routes[trace.routing[pe] ?? 0]?.find((each) => each.color === color);
    const wanted = (route?.tx ?? 0) & 15;
    STEPS.forEach(([right, down], port) => {
      const path = (wavelets >> port) & 1 ? taken : (wanted >> port) & 1 ? configured : undefined;
      if (path) addArrow(path, x + middle, y + middle, right, down, cell);
    });
    if ((wavelets | (route?.tx ?? 0)) & 16) {
      const path = wavelets & 16 ? taken : configured;
      path.rect(x + middle - cell * 0.06, y + middle - cell * 0.06, cell * 0.12, cell * 0.12);
    }
  }
  context.strokeStyle = colorOf(color);
  context.globalAlpha = 0.35;
  context.lineWidth = Math.max(0.6, cell * 0.02);
  context.stroke(configured);
  context.globalAlpha = 0.75;
  context.lineWidth = Math.max(0.8, cell * 0.035);
  context.stroke(taken);
  context.globalAlpha = 1;
}

function addArrow(path: Path2D, x: number, y: number, right: number, down: number, cell: number): void {
  path.moveTo(x, y);
  path.lineTo(x + right * cell, y + down * cell);
  if (cell < 16) return;
  const [tipX, tipY, wing] = [x + right * cell * 0.55, y + down * cell * 0.55, cell * 0.06];
  path.moveTo(tipX - right * wing + down * wing, tipY - down * wing + right * wing);
  path.lineTo(tipX, tipY);
  path.lineTo(tipX - right * wing - down * wing, tipY - down * wing - right * wing);
}

/** Lines of several colors lie beside each other. */
function shift(view: View, color: number): number {
  return view.color >= 0 || view.cell < 12 ? 0 : ((color % 8) - 3.5) * view.cell * 0.06;
}

/** Numbers as colours, one pixel for each PE, to be drawn larger. */
export function drawHeat(image: ImageData, values: Float32Array, most: number): void {
  const { data } = image;
  for (let pe = 0; pe < values.length; pe += 1) {
    const share = most > 0 ? (values[pe] ?? 0) / most : 0;
    const [red, green, blue] = SHADES[Math.round(255 * Math.min(share, 1))] ?? [0, 0, 0];
    data[4 * pe] = red;
    data[4 * pe + 1] = green;
    data[4 * pe + 2] = blue;
    data[4 * pe + 3] = share > 0 ? 215 : 0;
  }
}

const SHADES: [number, number, number][] = Array.from({ length: 256 }, (_, step) => {
  const [red = 0, green = 0, blue = 0] = heat(step / 255).match(/\d+/g)?.map(Number) ?? [];
  return [red, green, blue];
});

/** What moves or changes: work, waiting, wavelets, the chosen PE. `time` lies between two cycles. */
export function drawMoving(context: CanvasRenderingContext2D, trace: Trace, fabric: Fabric, view: View, time: number): void {
  drawWork(context, trace, fabric, view);
  drawWavelets(context, trace, view, time);
  if (view.selected < 0) return;
  const { cell } = view;
  context.strokeStyle = view.isDark ? "#ffffff" : "#000000";
  context.lineWidth = Math.max(1.5, cell * 0.05);
  context.strokeRect((view.selected % trace.width) * cell + 1, Math.floor(view.selected / trace.width) * cell + 1, Math.max(cell - 2, 1), Math.max(cell - 2, 1));
}

function drawWork(context: CanvasRenderingContext2D, trace: Trace, fabric: Fabric, view: View): void {
  const { cell } = view;
  if (cell < 4) return;
  const inset = cell >= 6 ? Math.max(1, cell * 0.08) : 0;
  const working = new Path2D();
  const waiting = new Path2D();
  for (let pe = 0; pe < fabric.task.length; pe += 1) {
    const x = (pe % trace.width) * cell + inset;
    const y = Math.floor(pe / trace.width) * cell + inset;
    const side = cell - 2 * inset;
    if ((fabric.task[pe] ?? -1) >= 0) working.rect(x, y, side, Math.max(2, side * 0.12));
    const count = Math.min(fabric.waiting[pe] ?? 0, 8);
    if (count > 0) waiting.rect(x, y + side - Math.max(2, side * 0.12), (side * count) / 8, Math.max(2, side * 0.12));
  }
  context.fillStyle = view.isDark ? "#5fd08b" : "#17733a";
  context.fill(working);
  context.fillStyle = view.isDark ? "#ff8a80" : "#b3261e";
  context.fill(waiting);
}

function drawWavelets(context: CanvasRenderingContext2D, trace: Trace, view: View, time: number): void {
  const { events, width } = trace;
  const { cell } = view;
  const cycle = Math.floor(time);
  const part = time - cycle;
  const size = Math.max(1.5, Math.min(cell * 0.22, 12));
  const paths = new Map<number, Path2D>();
  const end = findCycle(events, cycle + 1);
  for (let index = findCycle(events, cycle); index < end; index += 1) {
    const kind = events.kind[index] ?? 0;
    const color = events.color[index] ?? 0;
    if ((kind !== HOP && kind !== SEND) || !isShown(view, color)) continue;
    let path = paths.get(color);
    if (!path) paths.set(color, (path = new Path2D()));
    const pe = events.pe[index] ?? 0;
    const middle = cell / 2 + shift(view, color);
    const x = (pe % width) * cell + middle;
    const y = Math.floor(pe / width) * cell + middle;
    if (kind === SEND) {
      const grown = size * (0.4 + 0.6 * part);
      path.rect(x - grown / 2, y - grown / 2, grown, grown);
      continue;
    }
    const ports = events.ports[index] ?? 0;
    for (let port = 0; port < 4; port += 1) {
      if (!((ports >> port) & 1)) continue;
      const [right, down] = STEPS[port] ?? [0, 0];
      path.rect(x + right * cell * part - size / 2, y + down * cell * part - size / 2, size, size);
    }
    if ((ports >> 4) & 1) {
      const shrunk = size * (1 - 0.6 * part);
      path.rect(x - shrunk / 2, y - shrunk / 2, shrunk, shrunk);
    }
  }
  for (const [color, path] of paths) {
    context.fillStyle = colorOf(color);
    context.fill(path);
    if (size < 4) continue;
    context.strokeStyle = view.isDark ? "#ffffff" : "#18202b";
    context.lineWidth = 0.75;
    context.stroke(path);
  }
}
