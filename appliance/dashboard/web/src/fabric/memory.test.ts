import { expect, test } from "vitest";
import { bytesOf, memoryOf, typeOf, valuesOf } from "./memory";
import type { CodeClass, MemorySymbol } from "./trace";

const f32: MemorySymbol = { name: "v", address: 0, bytes: 400, type: "f32", shape: [100], shown: 8 };
const u16: MemorySymbol = { name: "n", address: 400, bytes: 2, type: "u16", shape: [], shown: 2 };
const classes = [{ file: "a", memory_bytes: 402, tasks: [], lines: {}, symbols: [f32, u16] }] as CodeClass[];

function viewOf(...bytes: number[]): DataView {
  return new DataView(Uint8Array.from(bytes).buffer);
}

test("a PE's bytes are those of its symbols, behind those of the PEs before", () => {
  const data = new Uint8Array(20);
  new DataView(data.buffer).setFloat32(10, 1.5, true);
  data[18] = 7;
  const memory = memoryOf(classes, Uint32Array.of(0, 0xffffffff, 0), data);
  expect([...memory.starts]).toEqual([0, 10, 10, 20]);
  expect(valuesOf(f32, bytesOf(memory, 2, classes[0]!.symbols, f32)!)).toBe("1.5, 0, ...");
  expect(valuesOf(u16, bytesOf(memory, 2, classes[0]!.symbols, u16)!)).toBe("7");
});

test("a trace that stores less than it says shows no values", () => {
  const memory = memoryOf(classes, Uint32Array.of(0, 0), new Uint8Array(19));
  expect(bytesOf(memory, 0, classes[0]!.symbols, f32)).toBeUndefined();
});

test("values have the symbol's type", () => {
  const shown = (type: string, ...bytes: number[]): string => valuesOf({ name: "x", address: 0, bytes: bytes.length, type }, viewOf(...bytes));
  expect(shown("f16", 0x00, 0x3e, 0x00, 0x7c, 0x01, 0x00)).toBe("1.5, Infinity, 5.96e-8");
  expect(shown("bf16", 0xc0, 0x3f)).toBe("1.5");
  expect(shown("cb16", 0x00, 0x59)).toBe("6");
  expect(shown("i16", 0xff, 0xff)).toBe("-1");
  expect(shown("u32", 0xff, 0xff, 0xff, 0xff)).toBe("4294967295");
  expect(shown("bool", 1, 0, 0, 0)).toBe("true, false");
  expect(shown("i8", 5, 0, 0xff, 0xff)).toBe("5, -1");
  expect(shown("u8", 5, 0, 0xff, 0)).toBe("5, 255");
  expect(shown("i24", 0xfe, 0xff, 0xff, 0xff)).toBe("-2");
  expect(shown("u40", 1, 0, 0, 0, 1, 0, 0, 0)).toBe("4294967297");
  expect(shown("", 0x34, 0x12)).toBe("0x1234");
  expect(typeOf(f32)).toBe("[100]f32");
  expect(typeOf(u16)).toBe("u16");
});

test("a struct is shown by its fields, as far as they are stored", () => {
  const fields = [
    { name: ".n", offset: 0, bytes: 2, shift: 0, type: "i8", is_array: false },
    { name: ".row", offset: 2, bytes: 4, shift: 0, type: "u16", is_array: true },
    { name: ".bits.low", offset: 6, bytes: 2, shift: 0, type: "u3", is_array: false },
    { name: ".bits.high", offset: 6, bytes: 2, shift: 3, type: "i5", is_array: false },
  ];
  const one: MemorySymbol = { name: "s", address: 0, bytes: 8, fields };
  expect(valuesOf(one, viewOf(0xfe, 0xff, 1, 0, 2, 0, 0xed, 0))).toBe("{ .n = -2, .row = 1 2, .bits.low = 5, .bits.high = -3 }");
  expect(typeOf(one)).toBe("struct");
  const two: MemorySymbol = { ...one, bytes: 16, shape: [2] };
  expect(valuesOf(two, viewOf(0, 0, 1, 0, 2, 0, 0, 0, 7, 0, 3, 0))).toBe(
    "{ .n = 0, .row = 1 2, .bits.low = 0, .bits.high = 0 }, { .n = 7, .row = 3 ... }, ...",
  );
  expect(typeOf(two)).toBe("[2]struct");
});
