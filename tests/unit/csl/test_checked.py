"""Checked programs: accesses beyond an array end the run with the array, the index and the line."""

import pytest

from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.errors import FabricError
from appliance.fabric.host_interface import Simulator, SimulatorOptions
from tests.support.csl import program_of
from tests.support.fabric_pair import run_both

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
var out = @zeros([4]u32);
const out_ptr: [*]u32 = &out;
var n: i16 = N;
var a = @zeros([8]i32);
var grid = @zeros([3, 5]u16);
var small = @zeros([4]i16);
var behind = @zeros([64]u32);
const S = struct { list: [2]i16, rest: [6]i16 };
var s = @zeros([2]S);
const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> a[i] });
const d4 = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{3, 5} -> grid[i, j] });
const many: [*]i32 = &a;
fn main() void {
  BODY
  behind[0] = 0;
  out[0] = 1;
  sys.unblock_cmd_stream();
}
comptime { @export_symbol(out_ptr, "out"); @export_symbol(main); }
"""


def run(body: str, n: int, *, is_checked: bool = True) -> tuple[int, str]:
    """Run `main`; return the cycle of the end, and what an operation reached."""
    pe = PE.replace("BODY", body).replace("N;", f"{n};", 1)
    program = program_of({"layout.csl": LAYOUT, "pe.csl": pe}, memcpy=True)
    simulator = Simulator(program, options=SimulatorOptions(is_checked=is_checked))
    simulator.submit(Launch("main"))
    found = simulator.wait(simulator.submit(CopyOut("out", Region(0, 0, 1, 1), 4)))
    assert found is not None
    assert found.reshape(-1)[0] == 1
    return simulator.cycle(), " ".join(simulator.doubts())


ACCESSES = [
    ("out[1] = @bitcast(u32, a[n]);", 7, 8, "index 8 is outside array 'a' (0 to 7)"),
    ("a[n] = 5;", 0, -1, "index -1 is outside array 'a' (0 to 7)"),
    ("a[n] += 5;", 7, 9, "index 9 is outside array 'a'"),
    ("grid[n, 1] = 5;", 2, 3, "index 3 is outside array 'grid' (0 to 2)"),
    ("grid[0, n] = 5;", 4, 5, "index 5 is outside array 'grid' (0 to 4)"),
    ("s[1].list[n] = 5;", 1, 2, "index 2 is outside array 's[1].list' (0 to 1)"),
    ("s[n].rest[0] = 5;", 1, 2, "index 2 is outside array 's' (0 to 1)"),
    ("var k: [3]i16 = @zeros([3]i16); k[n] = 1; out[1] = @as(u32, k[0] == 7);", 2, 3, "array 'k'"),
    ("const p = &small; p.*[n] = 2;", 3, 4, "index 4 is outside array 'p.*' (0 to 3)"),
]  # fmt: skip


OPERATIONS = [
    ("@mov32(@set_dsd_length(d, @as(u16, n)), 1);", 8, 9, "byte 35 of array 'a', which has 32"),
    ("@mov32(@increment_dsd_offset(d, n, i32), 1);", 0, 1, "reaches byte 35 of array 'a'"),
    ("@mov32(@set_dsd_stride(d, @as(i8, n)), 1);", 1, 2, "reaches byte 59 of array 'a'"),
    ("@mov16(@increment_dsd_offset(d4, n, u16), 1);", 0, 1, "reaches byte 31 of array 'grid'"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "last", "beyond", "text"), ACCESSES)
def test_an_access_beyond_an_array_is_found_with_its_line(
    body: str, last: int, beyond: int, text: str
) -> None:
    assert run(body, last) == run(body, last, is_checked=False)
    with pytest.raises(FabricError) as caught:
        run(body, beyond)
    assert text in str(caught.value)
    assert "PE (0, 0) at pe.csl:17:" in str(caught.value)


@pytest.mark.parametrize(("body", "last", "beyond", "text"), OPERATIONS)
def test_an_operation_that_goes_beyond_its_array_is_told_with_its_line(
    body: str, last: int, beyond: int, text: str
) -> None:
    """It goes on: public programs do so and undo what they did."""
    cycle, told = run(body, last)
    assert (cycle, told) == run(body, last, is_checked=False) == (cycle, "")
    same_cycle, told = run(body, beyond)
    assert same_cycle == run(body, beyond, is_checked=False)[0]
    assert text in told
    assert told.startswith("PE (0, 0) at pe.csl:17:")


def test_a_pointer_to_many_has_no_length_to_hold_it_to() -> None:
    run("many[n] = 5;", 9)


def test_a_program_that_is_not_checked_goes_on_behind_the_array() -> None:
    run("a[n] = 5;", 9, is_checked=False)


def test_kernel_and_reference_find_the_same_index() -> None:
    texts = {
        "layout.csl": LAYOUT.replace('@export_name("out", [*]u32, true);', ""),
        "pe.csl": PE.replace("BODY", "a[n] = 5;")
        .replace("N;", "9;", 1)
        .replace('@export_symbol(out_ptr, "out"); ', ""),
    }
    program = program_of(texts, memcpy=True)
    (number,) = [e.function for e in program.classes[0].exports if e.function is not None]
    assert run_both(program, {0: number}, limit=200, is_checked=True).fault == "INDEX on 0"
