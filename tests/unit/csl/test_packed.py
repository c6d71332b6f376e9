"""Packed structs and unions: fields are bits of one number, lowest first."""

import numpy as np
import pytest

from appliance.csl.semantics.values.numbers import of_bits
from appliance.csl.semantics.values.types import IntType, PackedType
from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from tests.support.csl import check_error, printed, program_of

LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @export_name("out", [*]u32, true);
  @export_name("main", fn () void);
}
"""
PE = """
param memcpy_params;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
var out = @zeros([12]u32);
const out_ptr: [*]u32 = &out;
const Mode = enum(u3) { Off, Slow, Fast = 6 };
const Inner = packed struct { low: u4, high: i4 };
const Word = packed struct { on: bool, mode: Mode, inner: Inner, count: i20 };
const Halves = packed struct { a: u16, b: u16 };
const Any = packed union { word: Word, bits: u32, number: f32, halves: Halves };
fn bits_of(w: Word) u32 { return @bitcast(u32, w); }
fn made(n: i20) Word {
  return .{ .on = true, .mode = Mode.Fast, .inner = .{ .low = 9, .high = -3 }, .count = n };
}
DECLARED
fn main() void {
BODY
  sys.unblock_cmd_stream();
}
comptime { @export_symbol(out_ptr, "out"); @export_symbol(main); }
"""
WORD = 1 | 6 << 1 | 9 << 4 | (-3 & 15) << 8 | (-70000 & 0xFFFFF) << 12
"""The bits of `made(-70000)`."""


def run(body: str, declared: str = "") -> list[int]:
    pe = PE.replace("BODY", body).replace("DECLARED", declared)
    simulator = Simulator(program_of({"layout.csl": LAYOUT, "pe.csl": pe}, memcpy=True))
    simulator.submit(Launch("main"))
    found = simulator.wait(simulator.submit(CopyOut("out", Region(0, 0, 1, 1), 12)))
    assert found is not None
    return [int(word) for word in found.reshape(-1)]


def test_a_packed_struct_of_run_time_fields_has_their_bits_in_order() -> None:
    found = run(
        """
  var n: i20 = -70000; const w = made(n); out[0] = bits_of(w);
  out[1] = if (w.on) 1 else 0; out[2] = @as(u32, w.mode == Mode.Fast);
  out[3] = @as(u32, w.inner.low); out[4] = @bitcast(u32, @as(i32, w.inner.high));
  out[5] = @bitcast(u32, @as(i32, w.count));
"""
    )
    signed = np.array(found, np.uint32).view(np.int32).tolist()
    assert found[:4] == [WORD, 1, 1, 9]
    assert signed[4:6] == [-3, -70000]


@pytest.mark.parametrize("where", ["var w", "var w: Word = made(0); const at = &w", "var ws"])
def test_writing_a_field_leaves_the_others_in_a_register_and_in_memory(where: str) -> None:
    body = {
        "var w": "var w = made(-70000);",
        "var w: Word = made(0); const at = &w": "var w = made(-70000); const at = &w;",
        "var ws": "var k: u16 = 2; ws[k] = made(-70000);",
    }[where]
    name = "ws[k]" if where == "var ws" else "w"
    change = f"{name}.inner.high = 5; {name}.on = false; out[0] = bits_of({name});"
    found = run(body + change, "var ws = @zeros([4]Word);" if where == "var ws" else "")
    assert found[0] == WORD & ~(1 | 15 << 8) | 5 << 8


def test_any_field_of_a_packed_union_reads_and_writes_the_same_bits() -> None:
    found = run(
        """
  any.number = -6.5; out[0] = any.bits; out[1] = @as(u32, any.halves.b);
  any.halves.b = 0x40d0; out[2] = if (any.number == 6.5) 1 else 0;
  any.word.on = true; out[3] = any.bits;
  any = Any{ .bits = 0x3f800000 }; out[4] = if (any.number == 1.0) 1 else 0;
""",
        "var any: Any = .{ .bits = 7 };",
    )
    assert found[:5] == [0xC0D00000, 0xC0D0, 1, 0x40D00001, 1]


def test_an_initial_value_and_a_known_one_are_the_same_bits() -> None:
    found = run("out[0] = bits_of(g); out[1] = @as(u32, g.inner.low);", "var g = made(-70000);")
    assert found[:2] == [WORD, 9]
    assert printed("@comptime_print(@bitcast(u16, P{ .a = 3, .b = -1 }));", TWO) == ["65283"]
    assert printed("var p = P{ .a = 3, .b = -1 }; p.a = 4; @comptime_print(p);", TWO) == [
        ".{ .a = 4, .b = -1 }"
    ]
    assert printed('@comptime_print(@has_field(P{ .a = 3, .b = 1 }, "b"));', TWO) == ["true"]


TWO = "const P = packed struct { a: u8, b: i8 };\nconst U = packed union { a: u8, b: i8 };\n"


@pytest.mark.parametrize(
    ("marked", "text"),
    [
        ("const x = $$P{ .a = 1 };", "no value for field 'b'"),
        ("const x = $$U{ .a = 1, .b = 2 };", "takes one of its fields, got 2"),
        ("var x: P = $$.{ .c = 1 };", "has no field 'c'"),
        ("var x: P = $$.{ 1, 2 };", "expected type 'packed struct (pe.csl:1)'"),
        ("var x = P{ .a = 1, .b = 1 }; const at = $$&x.a;", "bits of it, without an address"),
        ("const Q = packed struct { $$a: [2]i16 };", "a packed struct has fields of numbers"),
        ("const Q = $$packed struct { a: u64, b: u1 };", "a packed struct of 65 bits"),
    ],
)
def test_a_wrong_packed_value_is_refused_with_its_type(marked: str, text: str) -> None:
    fn, end = "fn main() void {\n", "\n}\ncomptime { @export_symbol(main); }\n"
    check_error(f"{TWO}{fn}{marked}{end}", text)


@pytest.mark.parametrize(("bits", "wanted"), [(0b0110, 0b0110), (0b1_0110, 0b0110), (-1, 0b1111)])
def test_a_packed_value_has_no_more_bits_than_its_type(bits, wanted):
    half = IntType("u2", 2, signed=False)
    pair = PackedType("pair", ("a", "b"), [half, half], object(), False, 4, (0, 2))
    assert of_bits(bits, pair) == wanted
