"""A descriptor that an operation of the block has loaded costs nothing again unless it changed."""

import pytest

from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from tests.support.csl import program_of
from tests.unit.fabric.test_rows_of_operations import LAYOUT

PE = """
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const time = @import_module("<time>");
var a = @zeros([6]f32);
var pad = @zeros([2]u16);
var b = @zeros([6]f32);
const a_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i] });
const b_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> b[i] });
var by: i16 = 1;
var start: [3]u16; var end: [3]u16; var clock: [6]u16;
var clock_pointer: [*]u16 = &clock;
fn far() void {
  if (a[5] > 1.0) { a[4] = 2.0; }
  for (@range(i16, 2)) |i| { b[5] += 1.0; }
}
fn run() void {
  pad[1] = 1;
  time.enable_tsc();
  time.get_timestamp(&start);
  WORK
  time.get_timestamp(&end);
  for (@range(u16, 3)) |word| { clock[word] = start[word]; clock[word + 3] = end[word]; }
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(clock_pointer, "clock"); @export_symbol(run); }
"""
MOVE = "@fmovs(a_dsd, b_dsd); "
LOAD = 4
"""Cycles of a descriptor that lies in no DSR."""


def _cycles(work: str) -> int:
    files = {"layout.csl": LAYOUT, "pe.csl": PE.replace("WORK", work)}
    simulator = Simulator(program_of(files, memcpy=True))
    simulator.submit(Launch("run"))
    clock = simulator.wait(simulator.submit(CopyOut("clock", Region(0, 0, 1, 1), 6, 16)))
    assert clock is not None
    return int(clock[0, 0, 3]) - int(clock[0, 0, 0])


@pytest.mark.parametrize(
    ("again", "num_loads"),
    [
        pytest.param(MOVE, 0, id="both"),
        pytest.param("@fnegs(a_dsd, b_dsd); ", 0, id="another operation"),
        pytest.param("@fmovs(b_dsd, a_dsd); ", 2, id="the other way round"),
        pytest.param("@fadds(a_dsd, a_dsd, b_dsd); ", 2, id="sources of another file"),
    ],
)
def test_a_second_operation_loads_what_is_not_there(again: str, num_loads: int) -> None:
    first, both = _cycles(MOVE), _cycles(MOVE + again)
    assert both - first == 1 + 2 + num_loads * LOAD


def test_a_changed_descriptor_is_loaded_again() -> None:
    start = "var moving = b_dsd; @fmovs(a_dsd, moving); "
    again = "moving = @increment_dsd_offset(moving, by, f32); @fmovs(a_dsd, moving); "
    assert _cycles(start + again) - _cycles(start) > 1 + 2 + LOAD


def test_a_call_may_use_all_dsrs() -> None:
    assert _cycles(MOVE + "far(); " + MOVE) - _cycles(MOVE + "far(); ") == 1 + 2 + 2 * LOAD
