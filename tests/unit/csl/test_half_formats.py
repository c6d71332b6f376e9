"""`--fp16-format`: one 16-bit float format exists at run time, the others at compile time."""

import math

import numpy as np
import pytest

from appliance.fabric.commands import CopyIn, CopyOut, Launch, Region
from appliance.fabric.floats import decode_float, encode_float
from appliance.fabric.host_interface import Simulator
from tests.support.csl import check_error, check_error_in, check_right, printed, program_of

FORMATS = ("f16", "bf16", "cb16")
OTHERS = [(one, other) for one in FORMATS for other in FORMATS if one != other]
TOP = "var h: {half} = 6.0; var y: f32; var w: u16;\n"


@pytest.mark.parametrize(("half", "other"), OTHERS)
def test_one_format_exists_at_run_time(half: str, other: str) -> None:
    top = TOP.format(half=half)
    body = f"const k: {other} = 1.5; h = h + @as({half}, k); w = @bitcast(u16, h); y = h;"
    whole = f"{top}fn main() void {{ {body} $$\n}}\ncomptime {{ @export_symbol(main); }}"
    check_right(whole.replace("$$", ""), fp16_format=half)
    text = f"variable of type '{other}' must be comptime-known"
    check_error(whole.replace("$$", f"$$var z: {other} = 1.0;"), text, fp16_format=half)
    check_error(
        f"$$var z: {other} = 1.0; comptime {{ const t = @type_of(z); }}", text, fp16_format=half
    )


@pytest.mark.parametrize("half", FORMATS)
def test_the_type_of_the_option_is_that_of_the_name(half: str) -> None:
    assert printed("@comptime_print(@fp16());", fp16_format=half) == [half]
    assert printed(f"@comptime_print(@fp16() == {half});", fp16_format=half) == ["true"]


@pytest.mark.parametrize("half", FORMATS)
def test_numbers_round_at_compile_time_as_at_run_time(half: str) -> None:
    for name in FORMATS:
        for number in (6.0, 1.001, 1 / 3, -65504.0, 1e-7, 3e38, -2e5, 1e-45, 0.0):
            body = f"@comptime_print(@bitcast(u16, @as({name}, @as(f32, {number!r}))));"
            assert printed(body, fp16_format=half) == [str(encode_float(number, 16, name))]
    assert printed("@comptime_print(@bitcast(u16, @as(cb16, 6.0)));") == [str(0x5900)]


@pytest.mark.parametrize("half", FORMATS)
def test_the_library_knows_the_special_numbers_of_each_format(half: str) -> None:
    top = 'const math = @import_module("<math>");'
    for name in FORMATS:
        for call, wanted in (
            ("POSITIVE_INF", math.inf),
            ("NEGATIVE_INF", -math.inf),
            ("NaN", math.nan),
        ):
            body = f"@comptime_print(@bitcast(u16, math.{call}({name})));"
            assert printed(body, top, fp16_format=half) == [str(encode_float(wanted, 16, name))]


LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @export_name("data", [*]HALF, true);
  @export_name("wide", [*]f32, true);
  @export_name("run", fn () void);
}
"""
PE = """
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const math = @import_module("<math>");
var data = [6]HALF{ 0.0, 0.0, 0.0, 0.0, -0.0, 1.001 };
var wide = [4]f32{ 0.0, 0.0, 0.0, -0.0 };
var p: [*]HALF = &data;
var q: [*]f32 = &wide;
const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> data[i] });
const s = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> wide[i] });
fn run() void {
  @fs2h(d, s);
  data[2] = math.sqrt(data[0]);
  data[3] = @as(HALF, 3) + @as(HALF, math.isInf(data[1]));
  wide[2] = data[5];
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(p, "data"); @export_symbol(q, "wide"); @export_symbol(run); }
"""


@pytest.mark.parametrize("half", FORMATS)
def test_a_program_converts_calls_the_library_and_keeps_what_it_was_given(half: str) -> None:
    texts = {"layout.csl": LAYOUT.replace("HALF", half), "pe.csl": PE.replace("HALF", half)}
    program = program_of(texts, memcpy=True, fp16_format=half)
    assert [symbol.type for symbol in program.symbols][:2] == [f"[*]{half}", "[*]f32"]
    simulator, one = Simulator(program), Region(0, 0, 1, 1)
    given = np.array([7.3, 1e30, 0, -0.0], np.float32)
    simulator.submit(CopyIn("wide", one, given.view(np.uint32).reshape(1, 1, -1), 32))
    simulator.submit(Launch("run"))
    found = simulator.wait(simulator.submit(CopyOut("data", one, 6, 16)))
    wide = simulator.wait(simulator.submit(CopyOut("wide", one, 4, 32)))
    assert found is not None
    assert wide is not None
    first, large = (encode_float(float(number), 16, half) for number in given[:2])
    root = math.sqrt(decode_float(first, half))
    is_infinite = math.isinf(decode_float(large, half))
    numbers = (root, 3.0 + is_infinite, -0.0, 1.001)
    wanted = [first, large, *(encode_float(number, 16, half) for number in numbers)]
    assert found.ravel().tolist() == wanted
    one_and = decode_float(encode_float(1.001, 16, half), half)
    assert wide.ravel().view(np.float32)[2:].tolist() == [one_and, -0.0]


@pytest.mark.parametrize("half", ["bf16", "cb16"])
def test_the_host_passes_no_other_half_than_f16(half: str) -> None:
    code = '@set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", .{});'
    export = '@export_name("f", $$fn (T) void);'
    for name in ("f16", "bf16", "cb16"):
        files = {"layout.csl": f"layout {{ {code} {export.replace('T', name)} }}", "pe.csl": ""}
        check_error_in(files, f"an exported function cannot take a '{name}'", fp16_format=half)
