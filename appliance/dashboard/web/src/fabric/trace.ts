/** A trace of the simulated fabric as the appliance hands it out (docs/fabric-traces.md). */

import type { Schemas } from "../api";
import { type Memory, memoryOf } from "./memory";

export const HOP = 1;
export const SEND = 2;
export const TAKE = 3;
export const HOST_IN = 4;
export const HOST_OUT = 5;
export const TASK = 6;
export const TASK_END = 7;
export const START = 8;
export const FINISH = 9;
export const VECTOR = 10;

export const PORTS = ["west", "east", "south", "north", "ramp"] as const;
export const NO_CODE = 0xffffffff;
export const NUM_COLORS = 24;
export const MAIN_THREAD = 8;

/** Function, number of the file, line, column and text. */
export type Line = [string, number, number, number, string];

/** A number, or an array of them, in a struct, a union or a packed value. */
export interface MemoryField {
  name: string;
  /** Bytes from the element's beginning. */
  offset: number;
  /** Bytes there that hold it: of a packed field, those of the whole packed value. */
  bytes: number;
  /** Its lowest bit in a packed value. */
  shift: number;
  type: string;
  is_array: boolean;
}

/** A variable; traces of earlier versions lack what it holds. */
export interface MemorySymbol {
  name: string;
  address: number;
  bytes: number;
  type?: string;
  shape?: number[];
  shown?: number;
  /** What an element is made of, if it is no number. */
  fields?: MemoryField[];
}

export interface CodeClass {
  file: string;
  memory_bytes: number;
  tasks: { kind: string; id: number; name: string }[];
  symbols: MemorySymbol[];
  lines: Record<string, Line>;
}

export interface Route {
  color: number;
  rx: number;
  tx: number;
  positions: [number, number][];
}

export interface Waiting {
  x: number;
  y: number;
  what: string;
  where: string;
  since: number;
}

interface Header {
  architecture: string;
  width: number;
  height: number;
  num_events: number;
  num_lost: number;
  end: string;
  waiting: Waiting[];
  files: string[];
  classes: CodeClass[];
  routes: Route[][];
  code: string;
  routing: string;
  memory?: string;
}

/** Columns of events, cycles ascending. */
export interface Events {
  length: number;
  cycle: Float64Array;
  pe: Uint32Array;
  a: Uint32Array;
  b: Uint32Array;
  kind: Uint8Array;
  color: Uint8Array;
  ports: Uint8Array;
  more: Uint8Array;
}

export interface Trace extends Omit<Header, "code" | "routing" | "memory"> {
  code: Uint32Array;
  routing: Uint32Array;
  /** What each PE's symbols held at the end. */
  memory: Memory;
  events: Events;
  /** Blocks of the file that come before those that were loaded. */
  skipped: number;
}

export function emptyEvents(length: number): Events {
  const bytes = (): Uint8Array => new Uint8Array(length);
  const words = (): Uint32Array => new Uint32Array(length);
  return { length, cycle: new Float64Array(length), pe: words(), a: words(), b: words(), kind: bytes(), color: bytes(), ports: bytes(), more: bytes() };
}

/** Put the columns of a block into `events` from `at` on. */
export function fillBlock(events: Events, at: number, data: Uint8Array, count: number, firstCycle: number): void {
  if (data.byteLength !== 20 * count) throw new Error(`A block has ${data.byteLength} bytes instead of ${20 * count}.`);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  for (let index = 0; index < count; index += 1) {
    events.cycle[at + index] = firstCycle + view.getUint32(4 * index, true);
    events.pe[at + index] = view.getUint32(4 * (count + index), true);
    events.a[at + index] = view.getUint32(4 * (2 * count + index), true);
    events.b[at + index] = view.getUint32(4 * (3 * count + index), true);
  }
  const rest = data.subarray(16 * count);
  events.kind.set(rest.subarray(0, count), at);
  events.color.set(rest.subarray(count, 2 * count), at);
  events.ports.set(rest.subarray(2 * count, 3 * count), at);
  events.more.set(rest.subarray(3 * count), at);
}

/** First event of a cycle or later. */
export function findCycle(events: Events, cycle: number): number {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((events.cycle[middle] ?? 0) < cycle) low = middle + 1;
    else high = middle;
  }
  return low;
}

async function inflated(data: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([data as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpacked(text: string): Promise<Uint8Array> {
  return inflated(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)));
}

async function words(text: string): Promise<Uint32Array> {
  const data = await unpacked(text);
  const view = new DataView(data.buffer);
  return Uint32Array.from({ length: data.byteLength / 4 }, (_, index) => view.getUint32(4 * index, true));
}

export type Index = Schemas["FabricTrace"];
type Fetcher = (path: string) => Promise<Uint8Array>;

/** The latest blocks that hold so many events together, and how many come before them. */
export function latest(blocks: Index["blocks"], most: number): number {
  let sum = 0;
  for (let number = blocks.length - 1; number >= 0; number -= 1) {
    sum += blocks[number]?.num_events ?? 0;
    if (sum > most) return number + 1;
  }
  return 0;
}

/** Load a trace block by block, one request at a time. */
export async function loadTrace(index: Index, fetch: Fetcher, most: number, onProgress: (share: number) => void): Promise<Trace> {
  const header = JSON.parse(new TextDecoder().decode(await inflated(await fetch("header")))) as Header;
  const skipped = latest(index.blocks, most);
  const wanted = index.blocks.slice(skipped);
  const events = emptyEvents(wanted.reduce((sum, block) => sum + block.num_events, 0));
  let at = 0;
  for (const [number, block] of wanted.entries()) {
    const data = await inflated(await fetch(`blocks/${skipped + number}`));
    fillBlock(events, at, data, block.num_events, block.first_cycle);
    at += block.num_events;
    onProgress((number + 1) / wanted.length);
  }
  const code = await words(header.code);
  const memory = memoryOf(header.classes, code, header.memory ? await unpacked(header.memory) : new Uint8Array());
  return { ...header, code, routing: await words(header.routing), memory, events, skipped };
}

export function lineOf(trace: Trace, pe: number, counter: number): Line | undefined {
  return trace.classes[trace.code[pe] ?? NO_CODE]?.lines[String(counter)];
}

/** A source line as people name it. */
export function placeOf(trace: Trace, line: Line | undefined): string {
  if (!line || line[1] < 0) return "";
  return `${trace.files[line[1]] ?? "?"}:${line[2]}`;
}
