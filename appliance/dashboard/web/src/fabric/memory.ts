/** What the variables of PEs held at the end of a traced run, as far as the trace stores it. */

import type { CodeClass, MemoryField, MemorySymbol } from "./trace";

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

const FLOATS: Record<string, (view: DataView, at: number) => number> = {
  f16: (view, at) => half(view.getUint16(at, true), 5, 15),
  bf16: (view, at) => half(view.getUint16(at, true), 8, 127),
  cb16: (view, at) => half(view.getUint16(at, true), 6, 42),
  f32: (view, at) => view.getFloat32(at, true),
};
const DIGITS: Record<string, number> = { f16: 4, bf16: 3, cb16: 4, f32: 7 };

/** Bits of a type: of "bool" 1, of "i24" 24. */
const bitsOf = (type: string): number => (type === "bool" ? 1 : Number(type.replace(/^\D+/, "")));

/** Bytes of a type in memory: whole 16-bit words, so that 8-bit types and bool take two. */
function sizeOf(type: string): number {
  const bits = bitsOf(type);
  return bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
}

/** So many bytes as an unsigned integer. */
function wordsAt(view: DataView, at: number, bytes: number): bigint {
  let value = 0n;
  for (let word = bytes - 2; word >= 0; word -= 2) value = (value << 16n) | BigInt(view.getUint16(at + word, true));
  return value;
}

/** A number of a type whose bits are the lowest of an integer. */
function ofBits(type: string, bits: bigint): string {
  const low = BigInt.asUintN(bitsOf(type), bits);
  if (type === "bool") return low ? "true" : "false";
  const float = FLOATS[type];
  if (float) {
    const view = new DataView(new ArrayBuffer(4));
    view.setUint32(0, Number(low), true);
    return number(float(view, 0), DIGITS[type] ?? 7);
  }
  return String(type.startsWith("i") ? BigInt.asIntN(bitsOf(type), low) : low);
}

/** Numbers of a type, one after another. */
function numbersOf(type: string, view: DataView, from: number, to: number): string[] {
  const size = sizeOf(type);
  const count = Math.max(0, Math.floor((Math.min(to, view.byteLength) - from) / size));
  return Array.from({ length: count }, (_, index) => ofBits(type, wordsAt(view, from + index * size, size)));
}

/** The fields of the struct that begins at a byte, as far as they are stored. */
function structAt(fields: MemoryField[], view: DataView, at: number): string {
  const shown = fields.flatMap((field) => {
    const [from, to] = [at + field.offset, at + field.offset + field.bytes];
    if (field.is_array) return [`${field.name} = ${numbersOf(field.type, view, from, to).join(" ")}${to > view.byteLength ? " ..." : ""}`];
    return to > view.byteLength ? [] : [`${field.name} = ${ofBits(field.type, wordsAt(view, from, field.bytes) >> BigInt(field.shift))}`];
  });
  return `{ ${shown.join(", ")} }`;
}

/** Values of a symbol, in words; "..." where it has more than the trace stores. */
export function valuesOf(symbol: MemorySymbol, view: DataView): string {
  const count = (symbol.shape ?? []).reduce((product, size) => product * size, 1);
  const values: string[] = [];
  if (symbol.fields?.length && count) {
    const size = symbol.bytes / count;
    for (let at = 0; at < view.byteLength; at += size) values.push(structAt(symbol.fields, view, at));
  } else if (symbol.type) {
    values.push(...numbersOf(symbol.type, view, 0, view.byteLength));
  } else {
    for (let at = 0; at + 2 <= view.byteLength; at += 2) values.push(`0x${view.getUint16(at, true).toString(16).padStart(4, "0")}`);
  }
  if (symbol.bytes > view.byteLength) values.push("...");
  return values.join(", ");
}

/** The type as a program writes it: [4,8]f32. */
export function typeOf(symbol: MemorySymbol): string {
  const shape = symbol.shape?.length ? `[${symbol.shape.join(",")}]` : "";
  if (symbol.fields?.length) return `${shape}struct`;
  return symbol.type ? `${shape}${symbol.type}` : "";
}
