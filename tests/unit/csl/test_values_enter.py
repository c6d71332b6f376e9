"""Every type of number by every way in which a value enters a PE, against a plain model.

A value comes as a literal, an initial value, a param, an argument, a wavelet or a copy of the
host; the program says what it reads and whether that is below zero. The model cuts a number to
its type's bits and knows nothing of slots, registers and words.
"""

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from appliance.fabric.commands import CopyIn, CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from tests.support.csl import program_of

INTEGERS = [f"{sign}{bits}" for bits in (1, 2, 5, 7, 8, 12, 15, 16) for sign in "iu"]
INTEGERS += [f"{sign}{bits}" for bits in (17, 23, 24, 31, 32, 40, 63, 64) for sign in "iu"]
TYPES = [*INTEGERS, "f16", "f32"]
SENT = LAUNCHED = ("i16", "u16", "i32", "u32", "f16", "f32")
ONE = Region(0, 0, 1, 1)
GARBAGE = 0xA5A5A5A5
"""What lies above a narrow value in the word that brings it."""
LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0), PARAMS });
  @export_name("out", [*]u32, true);
  @export_name("words16", [*]u16, true);
  @export_name("words32", [*]u32, true);
  @export_name("known", fn () void);
  @export_name("copied", fn () void);
  LAUNCHED
}
"""
PE = """
param memcpy_params;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
var out = @zeros([900]u32);
const out_ptr: [*]u32 = &out;
var n: u16 = 0;
fn say(pattern: u64, is_negative: bool) void {
  out[n] = @as(u32, pattern & 0xffffffff);
  out[n + 1] = @as(u32, pattern >> 32);
  out[n + 2] = if (is_negative) 1 else 0;
  n += 3;
}
fn tell(x: T) void { say(@as(u64, @bitcast(UNSIGNED, x)), x < ZERO); }
var array = [COUNT]T{ VALUES };
const S = struct { before: i16, x: T, after: i16 };
PACKED
const U = packed union { x: T, bits: UNSIGNED };
PARAMS
DECLARED
var loose: T = ZERO;
fn give(x: T) T { return x; }
fn known() void {
  KNOWN
  sys.unblock_cmd_stream();
}
var words16 = @zeros([COUNT]T);
const words16_ptr: [*]u16 = @ptrcast([*]u16, &words16);
const words32_ptr: [*]u32 = @ptrcast([*]u32, &words16);
fn copied() void {
  for (@range(u16, COUNT)) |i| { tell(words16[i]); }
  sys.unblock_cmd_stream();
}
LAUNCHED
WAVELETS
comptime {
  @export_symbol(out_ptr, "out");
  @export_symbol(words16_ptr, "words16");
  @export_symbol(words32_ptr, "words32");
  @export_symbol(known);
  @export_symbol(copied);
}
"""
WAVELETS = """
const c = @get_color(2);
const oq = @get_output_queue(3);
const iq = @get_input_queue(2);
const one = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = c, .output_queue = oq });
task come(x: T) void { tell(x); }
comptime {
  @set_local_color_config(c, .{ .routes = .{ .rx = .{RAMP}, .tx = .{RAMP} } });
  @initialize_queue(iq, .{ .color = c });
  if (@is_arch("wse3")) { @initialize_queue(oq, .{ .color = c }); }
  @bind_data_task(come, if (@is_arch("wse3")) @get_data_task_id(iq) else @get_data_task_id(c));
}
"""
COMPTIME_WAYS = (
    "const a_{k}: T = {v}; tell(a_{k});",
    "var b_{k}: T = {v}; tell(b_{k});",
    "tell(g_{k});",
    "tell(array[{k}]);",
    "tell(s_{k}.x);",
    "tell(p_{k}.x); if (p_{k}.before != 1) {{ n += 300; }}",
    "p_{k}.x = {v}; tell(p_{k}.x);",
    "u_{k}.bits = {pattern}; tell(u_{k}.x);",
    "var l_{k}: S = .{{ .before = -1, .x = {v}, .after = -1 }}; tell(l_{k}.x);",
    "loose = {v}; var q_{k}: P = .{{ .before = 1, .x = loose }}; tell(q_{k}.x);",
    "loose = {v}; tell(give(loose));",
    "tell(param{k});",
    "for (@range(u16, {k}, {k} + 1)) |i| {{ tell(array[i]); tell(structs[i].x); }}",
    "{{ const at: *T = &g_{k}; tell(at.*); }}",
)


def ways_of(kind: str) -> list[str]:
    """The ways that are possible: with another bit before it, a value of 64 is no packed field."""
    is_packable = width_of(kind) < 64
    return [way for way in COMPTIME_WAYS if is_packable or not ("p_{k}" in way or "q_{k}" in way)]


def width_of(kind: str) -> int:
    return int(kind[1:])


def values_of(kind: str) -> list[int | float]:
    if kind[0] == "f":
        return [-1.5, 0.0, 2.0**-14, -60000.0]
    bits, signed = width_of(kind), kind[0] == "i"
    low, high = (-(1 << (bits - 1)) if signed else 0), (1 << (bits - signed)) - 1
    middle = int(
        np.random.default_rng(bits).integers(
            low, high, endpoint=True, dtype=np.int64 if signed else np.uint64
        )
    )
    return [low, high, -1 if signed else high >> 1, middle]


def pattern_of(value: float, kind: str) -> int:
    """The bits of a value: the whole model."""
    if kind[0] == "f":
        return int.from_bytes(struct.pack("<e" if kind == "f16" else "<f", value), "little")
    return int(value) & ((1 << width_of(kind)) - 1)


def texts(kind: str) -> dict[str, str]:
    """The program that tells every value of a type by every way."""
    values, unsigned = values_of(kind), f"u{width_of(kind)}"
    literals = [f"{v:.20f}" if kind[0] == "f" else str(v) for v in values]
    declared, known, params = list[str](), list[str](), list[str]()
    for k, (value, literal) in enumerate(zip(values, literals, strict=True)):
        pattern = pattern_of(value, kind)
        declared += [
            f"var g_{k}: T = {literal};",
            f"var s_{k}: S = .{{ .before = -1, .x = {literal}, .after = -1 }};",
            f"var u_{k}: U;",
        ]
        if width_of(kind) < 64:
            declared.append(f"var p_{k}: P = .{{ .before = 1, .x = {literal} }};")
        params.append(f"param param{k}: T;")
        for way in ways_of(kind):
            known.append("  " + way.format(k=k, v=literal, pattern=f"@as({unsigned}, {pattern})"))
    elements = ", ".join(
        f".{{ .before = -1, .x = {literal}, .after = -1 }}" for literal in literals
    )
    declared.append(f"var structs = [COUNT]S{{ {elements} }};")
    if kind in SENT:
        known += [f"  @mov32(one, @as(u32, {_word(v, kind)}));" for v in values]
    replaced = {
        "PACKED": "const P = packed struct { before: u1, x: T };" if width_of(kind) < 64 else "",
        "WAVELETS": WAVELETS if kind in SENT else "",
        "LAUNCHED": "fn launched(x: T) void { tell(x); sys.unblock_cmd_stream(); }\n"
        "comptime { @export_symbol(launched); }" if kind in LAUNCHED else "",
        "KNOWN": "\n".join(known), "DECLARED": "\n".join(declared), "PARAMS": "\n".join(params),
        "VALUES": ", ".join(literals), "COUNT": str(len(values)),
        "ZERO": "0.0" if kind[0] == "f" else "0", "UNSIGNED": unsigned,
    }  # fmt: skip
    code = PE
    for word, text in replaced.items():
        code = code.replace(word, text)
    given = ", ".join(f".param{k} = {literal}" for k, literal in enumerate(literals))
    launched = f'@export_name("launched", fn ({kind}) void);' if kind in LAUNCHED else ""
    layout = LAYOUT.replace("PARAMS", given).replace("LAUNCHED", launched)
    return {"layout.csl": layout, "pe.csl": f"const T = {kind};\n{code}"}


def _word(value: float, kind: str) -> int:
    """A value in the low bits of a word that holds something else above."""
    width = width_of(kind)
    return (pattern_of(value, kind) | GARBAGE << width) & 0xFFFFFFFF


class _Told:
    """What a program has told, three words a value, taken in order."""

    def __init__(self, words: Sequence[int], kind: str) -> None:
        self._words, self._kind, self._at = words, kind, 0

    def check(self, value: float, way: str) -> None:
        low, high, is_negative = self._words[self._at : self._at + 3]
        self._at += 3
        wanted = (pattern_of(value, self._kind), value < 0)
        assert (low | high << 32, bool(is_negative)) == wanted, f"{value} as {way}"


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_value_is_the_same_by_whatever_way_it_enters(kind: str, architecture: str) -> None:
    simulator = Simulator(program_of(texts(kind), architecture=architecture, memcpy=True))
    values, width = values_of(kind), width_of(kind)
    simulator.submit(Launch("known"))
    words = np.array([[[_word(value, kind) for value in values]]], np.uint32)
    if width <= 32:
        bits = 16 if width <= 16 else 32
        simulator.submit(CopyIn(f"words{bits}", ONE, words, bits=bits))
        simulator.submit(Launch("copied"))
    if kind in LAUNCHED:
        for value in values:
            simulator.submit(Launch("launched", (_word(value, kind),)))
    found = simulator.wait(simulator.submit(CopyOut("out", ONE, 900)))
    assert found is not None
    told = _Told(found.reshape(-1).tolist(), kind)
    for value in values:
        for way in ways_of(kind):
            for _ in range(way.count("tell(")):
                told.check(value, way)
    ways = {"wavelet": kind in SENT, "copy": width <= 32, "launch": kind in LAUNCHED}
    for way in (way for way, is_taken in ways.items() if is_taken):
        for value in values:
            told.check(value, way)
