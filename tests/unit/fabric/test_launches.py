"""When the launch of a function has ended."""

import pytest

from appliance.fabric.commands import Launch
from appliance.fabric.host_interface import Simulator
from appliance.fabric.options import SimulatorOptions
from tests.support.csl import program_of

LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @export_name("main", fn () void);
}
"""
CODE = """
param memcpy_params;
const memcpy = @import_module("<memcpy/memcpy>", memcpy_params);
var x: u32 = 0;
fn main() void {
  %s
}
comptime { @export_symbol(main); }
"""


@pytest.mark.parametrize(
    ("body", "ends"),
    [
        ("while (true) { x += 1; }", False),
        ("while (true) { x += 1; } memcpy.unblock_cmd_stream();", False),
        ("while (x < 1000) { x += 1; } memcpy.unblock_cmd_stream();", True),
        ("memcpy.unblock_cmd_stream(); while (true) { x += 1; }", True),
        ("x += 1;", True),
    ],
    ids=["endless", "endless before", "long", "endless behind", "never says so"],
)
def test_a_launch_has_ended_when_its_function_says_so_or_nothing_moves(
    body: str, ends: bool
) -> None:
    program = program_of({"layout.csl": LAYOUT, "pe.csl": CODE % body}, memcpy=True)
    simulator = Simulator(program, options=SimulatorOptions(slice_work=20_000))
    launch = simulator.submit(Launch("main"))
    assert any(simulator.is_done(launch) for _ in range(50)) == ends
