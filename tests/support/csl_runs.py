"""Runs statements in CSL on one PE, and reads what they leave in `out`."""

from appliance.csl.program import Program
from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator, SimulatorOptions
from tests.support.csl import program_of

WORDS = 32
LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  ROUTES
  @export_name("out", [*]u32, true);
  @export_name("main", fn () void);
}
"""
PE = """
param memcpy_params;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
var out = @zeros([32]u32);
const out_ptr: [*]u32 = &out;
TOP
fn main() void {
  BODY
}
comptime { @export_symbol(out_ptr, "out"); @export_symbol(main); }
"""


def run(
    top: str, body: str, *, architecture: str = "wse2", routes: str = "", ends: bool = True
) -> tuple[list[int], list[str]]:
    """Run `main` with a body behind declarations.

    Args:
        top: The declarations.
        body: The statements of `main`.
        architecture: Of the machine.
        routes: Statements of the layout.
        ends: Whether `main` itself is the end of the work; a task calls `sys` otherwise.

    Returns:
        The words of `out`, and what the checked run was told.
    """
    body += " sys.unblock_cmd_stream();" if ends else ""
    texts = {
        "layout.csl": LAYOUT.replace("ROUTES", routes),
        "pe.csl": PE.replace("TOP", top).replace("BODY", body),
    }
    return outcome(program_of(texts, memcpy=True, architecture=architecture))


def outcome(program: Program) -> tuple[list[int], list[str]]:
    """Launch `main` of a program; return the words of `out`, and what the run was told."""
    simulator = Simulator(program, options=SimulatorOptions(is_checked=True))
    simulator.submit(Launch("main"))
    found = simulator.wait(simulator.submit(CopyOut("out", Region(0, 0, 1, 1), WORDS)))
    assert found is not None
    return [int(word) for word in found.reshape(-1)], simulator.doubts()
