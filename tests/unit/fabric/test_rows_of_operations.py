"""Operations on DSDs of several dimensions go row by row; their banks meet as those of vectors."""

import pytest

from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from tests.support.csl import program_of

LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @export_name("clock", [*]u16, true);
  @export_name("run", fn () void);
}
"""
PE = """
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const time = @import_module("<time>");
var sums = @zeros([16, 13]f32);
var terms = @zeros([16, 13]f32);
const sums_dsd = @get_dsd(KIND, .{ .tensor_access = ACCESS sums[INDEX] });
const terms_dsd = @get_dsd(KIND, .{ .tensor_access = ACCESS terms[INDEX_OF_TERMS] });
var start: [3]u16; var end: [3]u16; var clock: [6]u16;
var clock_pointer: [*]u16 = &clock;
fn run() void {
  time.enable_tsc();
  time.get_timestamp(&start);
  @fadds(sums_dsd, sums_dsd, terms_dsd);
  time.get_timestamp(&end);
  for (@range(u16, 3)) |word| { clock[word] = start[word]; clock[word + 3] = end[word]; }
  sys_mod.unblock_cmd_stream();
}
comptime { @export_symbol(clock_pointer, "clock"); @export_symbol(run); }
"""
PLANE = "2 * i + j, k"
START = 18
"""Reading the clock, the start of the operation, three descriptors."""


def _cycles(access: str, index: str, index_of_terms: str, architecture: str) -> int:
    pe = PE.replace("ACCESS", access).replace("INDEX_OF_TERMS", index_of_terms)
    pe = pe.replace("INDEX", index).replace("KIND", "mem4d_dsd" if "," in access else "mem1d_dsd")
    program = program_of(
        {"layout.csl": LAYOUT, "pe.csl": pe}, architecture=architecture, memcpy=True
    )
    simulator = Simulator(program)
    simulator.submit(Launch("run"))
    clock = simulator.wait(simulator.submit(CopyOut("clock", Region(0, 0, 1, 1), 6, 16)))
    assert clock is not None
    return int(clock[0, 0, 3]) - int(clock[0, 0, 0])


@pytest.mark.parametrize(
    ("access", "index", "index_of_terms", "wse2", "wse3"),
    [
        pytest.param("|i|{12} ->", "0, i", "0, i + 2", 6, 6, id="vectors two words apart"),
        pytest.param("|i|{12} ->", "0, i", "0, i + 4", 12, 3, id="vectors four words apart"),
        pytest.param("|i|{12} ->", "0, i", "0, i", 12, 6, id="vectors in one bank"),
        pytest.param("|i|{12} ->", "0, i", "0, i + 1", 12, 6, id="vectors that overlap in a bank"),
        pytest.param("|i, j|{1, 12} ->", "i, j", "i, j + 4", 12, 3, id="one row"),
        pytest.param("|i, j|{2, 6} ->", "i, j", "i, j + 2", 6, 6, id="two rows"),
        pytest.param("|i, j|{4, 3} ->", "i, j", "i, j + 2", 8, 8, id="odd rows"),
        pytest.param("|i, j|{12, 1} ->", "i, j", "i, j + 1", 6, 3, id="column"),
        pytest.param(
            "|i, j, k|{2, 2, 3} ->", "2 * i + j, k", "2 * i + j, k + 4", 16, 4, id="planes"
        ),
        pytest.param("|i, j|{2, 5} ->", "i, j", "i, j + 1", 10, 6, id="a last element alone"),
        pytest.param("|i, j|{2, 6} ->", "i, j", "i + 1, j", 12, 8, id="odd rows apart in one bank"),
    ],
)
def test_a_row_takes_whole_cycles(
    access: str, index: str, index_of_terms: str, wse2: int, wse3: int
) -> None:
    assert _cycles(access, index, index_of_terms, "wse2") == START + wse2
    assert _cycles(access, index, index_of_terms, "wse3") == START + wse3
