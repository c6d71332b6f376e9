/** What the variables of PEs held at the end of a traced run, as far as the trace stores it. */

import type { CodeClass, MemorySymbol } from "./trace";

export interface Memory {
  data: Uint8Array;
  /** Where a PE's bytes begin; one more entry for the end. */
  starts: Uint32Array;
}

/** Find each PE's bytes: those of its symbols, one after another, PE by PE. */
export function memoryOf(classes: CodeClass[], code: Uint32Array, data: Uint8Array): Memory {
  const sizes = classes.map((each) => each.symbols.reduce((sum, symbol) => sum + (symbol.shown ?? 0), 0));
  const starts = new Uint32Array(code.length + 1);
  for (let pe = 0; pe < code.length; pe += 1) starts[pe + 1] = (starts[pe] ?? 0) + (sizes[code[pe] ?? -1] ?? 0);
  return { data: (starts[code.length] ?? 0) <= data.length ? data : new Uint8Array(), starts };
}

/** The stored bytes of a symbol of a PE; none if the trace lacks them. */
export function bytesOf(memory: Memory, pe: number, symbols: MemorySymbol[], symbol: MemorySymbol): DataView | undefined {
  if (memory.data.length === 0 || !symbol.shown) return undefined;
  const before = symbols.slice(0, symbols.indexOf(symbol)).reduce((sum, each) => sum + (each.shown ?? 0), 0);
  return new DataView(memory.data.buffer, memory.data.byteOffset + (memory.starts[pe] ?? 0) + before, symbol.shown);
}

/** A float of 16 bits with so many bits of exponent. */
function half(bits: number, exponentBits: number, bias: number): number {
  const mantissaBits = 15 - exponentBits;
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> mantissaBits) & ((1 << exponentBits) - 1);
  const fraction = (bits & ((1 << mantissaBits) - 1)) / (1 << mantissaBits);
  if (exponent === (1 << exponentBits) - 1) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (exponent ? (1 + fraction) * 2 ** (exponent - bias) : fraction * 2 ** (1 - bias));
}

const number = (value: number, digits: number): string => String(Number(value.toPrecision(digits)));

/** By type: bytes of an element, and its value in words. */
const TYPES: Record<string, [number, (view: DataView, at: number) => string]> = {
  f32: [4, (view, at) => number(view.getFloat32(at, true), 7)],
  f16: [2, (view, at) => number(half(view.getUint16(at, true), 5, 15), 4)],
  bf16: [2, (view, at) => number(half(view.getUint16(at, true), 8, 127), 3)],
  cb16: [2, (view, at) => number(half(view.getUint16(at, true), 6, 42), 4)],
  u8: [1, (view, at) => String(view.getUint8(at))],
  i8: [1, (view, at) => String(view.getInt8(at))],
  u16: [2, (view, at) => String(view.getUint16(at, true))],
  i16: [2, (view, at) => String(view.getInt16(at, true))],
  u32: [4, (view, at) => String(view.getUint32(at, true))],
  i32: [4, (view, at) => String(view.getInt32(at, true))],
  u64: [8, (view, at) => String(view.getBigUint64(at, true))],
  i64: [8, (view, at) => String(view.getBigInt64(at, true))],
  bool: [1, (view, at) => (view.getUint8(at) ? "true" : "false")],
};

const asWord: [number, (view: DataView, at: number) => string] = [2, (view, at) => `0x${view.getUint16(at, true).toString(16).padStart(4, "0")}`];

/** Values of a symbol, in words; "..." where it has more than the trace stores. */
export function valuesOf(symbol: MemorySymbol, view: DataView): string {
  const [size, read] = TYPES[symbol.type ?? ""] ?? asWord;
  const values = Array.from({ length: Math.floor(view.byteLength / size) }, (_, index) => read(view, index * size));
  if (symbol.bytes > view.byteLength) values.push("...");
  return values.join(", ");
}

/** The type as a program writes it: [4,8]f32. */
export function typeOf(symbol: MemorySymbol): string {
  const shape = symbol.shape?.length ? `[${symbol.shape.join(",")}]` : "";
  return symbol.type ? `${shape}${symbol.type}` : "";
}
