"""The first source with a length decides a DSD operation; what it goes beyond is told."""

import pytest

from appliance.csl.diagnostics import Severity
from tests.support.csl import LAYOUT, check_warning_in, compile_pe
from tests.support.csl_runs import run

UNARY_16 = ["mov16", "fmovh", "fnegh", "fabsh", "clz", "ctz", "popcnt", "fh2xp16", "xp162fh"]
UNARY_32 = ["mov32", "fmovs", "fnegs", "fabss"]
BINARY_16 = [
    "add16",
    "addc16",
    "sub16",
    "and16",
    "or16",
    "xor16",
    "sll16",
    "slr16",
    "sar16",
    "faddh",
    "fsubh",
    "fmulh",
    "fmaxh",
]
BINARY_32 = ["fadds", "fsubs", "fmuls", "fmaxs"]
FUSED = {"fmach": ("h", "h", "h"), "fmacs": ("s", "s", "s"), "fmachs": ("s", "s", "h")}
MIXED = {"fh2s": ("s", "h"), "fs2h": ("h", "s"), "fs2xp16": ("h", "s"), "xp162fs": ("s", "h"),
         "faddhs": ("s", "h", "s")}  # fmt: skip
OPERATIONS = {
    **dict.fromkeys(UNARY_16, ("h", "h")),
    **dict.fromkeys(UNARY_32, ("s", "s")),
    **dict.fromkeys(BINARY_16, ("h", "h", "h")),
    **dict.fromkeys(BINARY_32, ("s", "s", "s")),
    **MIXED,
    **FUSED,
}
"""Every operation with DSDs, by the widths of its operands: h 16 bits, s 32 bits."""

TOP = """
var h = @zeros([12]u16);
var s = @zeros([12]u32);
var fifo_memory = @zeros([8]u32);
const fifo = @allocate_fifo(fifo_memory);
const h4 = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> h[i] });
const h6 = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{6} -> h[i] });
const s4 = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> s[i] });
const s6 = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{6} -> s[i] });
const d6 = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{2, 3} -> s[3 * i + j] });
const out_queue = @get_output_queue(2); const in_queue = @get_input_queue(2);
const c = @get_color(4);
comptime {
  @initialize_queue(in_queue, .{ .color = c });
  if (@is_arch("wse3")) @initialize_queue(out_queue, .{ .color = c });
}
const to4 = @get_dsd(fabout_dsd, .{ .extent = 4, .fabric_color = c, .output_queue = out_queue });
const to = @set_dsd_length(to4, 0x7fff);
const from4 = @get_dsd(fabin_dsd, .{ .extent = 4, .input_queue = in_queue });
"""


def warnings(statement: str, architecture: str) -> list[str]:
    pe = f"{TOP} fn main() void {{ {statement} }} comptime {{ @export_symbol(main); }}"
    compilation = compile_pe(pe, architecture=architecture)
    assert compilation.program is not None, compilation.render()
    found = [each.text for each in compilation.diagnostics if each.severity is Severity.WARNING]
    return [text for text in found if "deprecated" not in text]


def call(name: str, lengths: tuple[int, ...]) -> str:
    widths = OPERATIONS[name]
    operands = [f"{width}{length}" for width, length in zip(widths, lengths, strict=False)]
    factor = {"fmach": "2.0", "fmachs": "2.0", "fmacs": "2.0"}.get(name)
    return f"@{name}({', '.join([*operands, *([factor] if factor else [])])});"


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_an_operation_warns_of_what_it_goes_beyond_and_of_what_it_leaves_of_a_source(
    name: str,
) -> None:
    def told(taken: int, operand: str, length: int) -> list[str]:
        it = f"it takes {taken}, its {operand} has {length}"
        return [f"'@{name}': its operands differ in length: {it}"]

    count = len(OPERATIONS[name])
    assert warnings(call(name, (4, *(6,) * (count - 1))), "wse2") == told(6, "destination", 4)
    assert warnings(call(name, (6, *(4,) * (count - 1))), "wse2") == []
    assert warnings(call(name, (4,) * count), "wse3") == []
    if count == 3:
        assert warnings(call(name, (6, 6, 4)), "wse3") == told(6, "second source", 4)
        assert warnings(call(name, (4, 4, 6)), "wse3") == told(4, "second source", 6)


def test_the_operand_of_another_length_is_the_place_of_the_warning() -> None:
    pe = f"{TOP} fn main() void {{ @fadds(s6, s4, $$s6); }} comptime {{ @export_symbol(main); }}"
    files = {"layout.csl": LAYOUT, "pe.csl": pe}
    check_warning_in(files, "'@fadds': its operands differ in length: it takes 4")


KINDS = [
    ("@mov32(s4, d6);", "it takes 6, its destination has 4"),
    ("@mov32(d6, s4);", ""),
    ("@mov32(d6, s6);", ""),
    ("@mov32(s6, from4);", ""),
    ("@mov32(s4, @set_dsd_length(from4, 5));", "it takes 5, its destination has 4"),
    ("@mov32(to4, s6);", ""),
    ("@mov32(to4, from4);", ""),
    ("@fadds(s6, s6, from4);", "it takes 6, its second source has 4"),
    ("@fadds(to4, 1.0, s6);", ""),
    ("@fadds(to4, s6, s4);", "it takes 6, its second source has 4"),
    ("@fadds(s4, s4, 1.0);", ""),
    ("@mov32(s6, 1);", ""),
    ("@mov32(to4, 1);", ""),
    ("@mov32(to, s6);", ""),
    ("@mov32(fifo, s6);", ""),
    ("@mov32(s6, fifo);", ""),
    ("@fadds(s4, s6, fifo);", "it takes 6, its destination has 4"),
    ("var sum: f32 = 0.0; @fadds(&sum, sum, s6);", ""),
    ("@mov32(s4, @set_dsd_length(s4, 0));", ""),
    ("@mov32(@set_dsd_length(s6, 4), s4);", ""),
]
"""Kinds of operands; a FIFO, a scalar, a pointer and a stream without an end have no length."""


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
@pytest.mark.parametrize(("statement", "told"), KINDS)
def test_operands_of_all_kinds_are_held_to_what_an_operation_takes(
    statement: str, told: str, architecture: str
) -> None:
    found = warnings(statement, architecture)
    assert [text.split("in length: ")[1] for text in found] == ([told] if told else [])


RUNS = """
var n: u16 = 4; var k: u16 = 6; var none: u16 = 0;
const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{12} -> s[i] });
const ones = @constants([12]u32, 1);
const one = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{12} -> ones[i] });
const one6 = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{2, 3} -> ones[3 * i + j] });
const dest = @get_dsr(dsr_dest, 1); const source = @get_dsr(dsr_src1, 1);
const first = @get_dsr(dsr_src0, 1);
fn of(dsd: mem1d_dsd, length: u16) mem1d_dsd { return @set_dsd_length(dsd, length); }
"""
AT_RUN_TIME = [
    ("@mov32(of(d, n), of(one, n));", 4, ""),
    ("@mov32(of(d, k), of(one, n));", 4, ""),
    ("@mov32(of(d, n), of(one, k));", 6, "it takes 6, its destination has 4"),
    ("@mov32(of(d, n), one6);", 6, "it takes 6, its destination has 4"),
    ("@mov32(of(d, n), 1);", 4, ""),
    ("@mov32(of(d, k), of(one, none));", 0, ""),
    ("@mov32(of(d, none), of(one, none));", 0, ""),
    ("@mov32(of(d, none), 1);", 0, ""),
    ("@fadds(of(d, n), of(one, n), of(one, k));", 4, ""),
    ("@fadds(of(d, k), of(one, k), of(one, n));", 6, "it takes 6, its second source has 4"),
    ("@fadds(of(d, n), of(one, none), of(one, n));", 0, ""),
    ("@fadds(of(d, n), 1.0, of(one, k));", 6, "it takes 6, its destination has 4"),
    ("@load_to_dsr(dest, of(d, n)); @load_to_dsr(source, of(one, k)); @mov32(dest, source);",
     6, "it takes 6, its destination has 4"),
    ("@load_to_dsr(dest, d); @load_to_dsr(first, one); @fadds(dest, first, of(one, k));",
     12, "it takes 12, its second source has 6"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "taken", "told"), AT_RUN_TIME)
def test_a_checked_run_takes_the_first_sources_length_and_tells_what_it_goes_beyond(
    statement: str, taken: int, told: str
) -> None:
    body = f"{statement} for (@range(u16, 12)) |i| {{ if (s[i] != 0) {{ out[0] += 1; }} }}"
    words, doubts = run(TOP + RUNS, body, architecture="wse3")
    assert words[0] == taken
    assert [text.split("in length: ")[1] for text in doubts] == (
        [f"{told}. The first source decides."] if told else []
    )


FIFO_LENGTHS = [
    # What is done, how many elements it moved.
    ("@mov32(fifo, x);", 1),
    ("@set_fifo_write_length(fifo, 3); @mov32(fifo, x);", 3),
    ("@set_fifo_write_length(fifo, 0); @mov32(fifo, x);", 1),
    ("@set_fifo_write_length(fifo, 3); @mov32(fifo, s4);", 4),
    ("@set_fifo_write_length(fifo, 3); @fadds(fifo, s4, s6);", 4),
    ("@set_fifo_write_length(fifo, 1); @mov32(fifo, x); @mov32(fifo, x);", 2),
    ("@set_fifo_read_length(fifo, 3); @mov32(fifo, x);", 1),
    ("@mov32(fifo, s6); @mov32(s4, fifo);", 2),
    ("@mov32(fifo, s6); @set_fifo_read_length(fifo, 3); @mov32(s4, fifo);", 3),
    ("@mov32(fifo, s6); @set_fifo_read_length(fifo, 5); @mov32(&x, fifo);", 1),
    ("@mov32(fifo, s6); @set_fifo_write_length(fifo, 3); @mov32(s4, fifo);", 2),
    ("@mov32(fifo, s6); @set_fifo_read_length(fifo, 3); @fadds(s4, s6, fifo);", 0),
    ("@mov32(fifo, s6); @set_fifo_read_length(fifo, 3); @fadds(s4, 0.0, fifo);", 3),
    # What an operation left undone is the length of the next one.
    (
        "@mov32(fifo, s4); @set_fifo_read_length(fifo, 6); @mov32(s4, fifo);"
        "@mov32(fifo, s6); @mov32(s4, fifo);",
        4,
    ),
    (
        "@set_fifo_write_length(fifo, 10); @mov32(fifo, x); @set_fifo_read_length(fifo, 5);"
        "@mov32(s4, fifo); @mov32(fifo, x);",
        5,
    ),
    ("@mov32(fifo, s4); @mov32(s6, fifo); @mov32(fifo, s4); @mov32(&x, fifo);", 3),
]
"""What a FIFO holds at the end: its lengths say how far an operation goes, not what it holds."""


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
@pytest.mark.parametrize(("work", "left"), FIFO_LENGTHS)
def test_a_length_of_a_fifo_is_that_of_its_operations(
    work: str, left: int, architecture: str
) -> None:
    count = "while (@mov32(&x, fifo)) { out[0] += 1; if (out[0] > 8) { break; } }"
    body = f"{work} @set_fifo_read_length(fifo, 0); {count}"
    found, _ = run(f"{TOP} var x: u32 = 7;", body, architecture=architecture)
    assert found[0] == left


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
def test_a_scalar_keeps_its_value_when_a_fifo_gives_less_than_its_length(architecture: str) -> None:
    body = """@mov32(fifo, s4); @set_fifo_read_length(fifo, 6);
              if (!@mov32(&x, fifo)) { out[0] = x; }
              @mov32(fifo, s6); if (@mov32(&x, fifo)) { out[1] = x; }"""
    top = f"{TOP} var x: u32 = 7; comptime {{ }}"
    found, _ = run(
        top, f"for (@range(u16, 6)) |i| {{ s[i] = 10 + i; }} {body}", architecture=architecture
    )
    assert found[:2] == [7, 11]


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
@pytest.mark.parametrize("length", ["", "@set_fifo_write_length(fifo, 1);"])
def test_a_full_fifo_takes_nothing_whatever_length_is_set(length: str, architecture: str) -> None:
    body = f"for (@range(u16, 10)) |i| {{ {length} if (@mov32(fifo, i)) {{ out[i] = 1; }} }}"
    found, _ = run(f"{TOP}", body, architecture=architecture)
    assert found[:10] == [1] * 8 + [0] * 2
