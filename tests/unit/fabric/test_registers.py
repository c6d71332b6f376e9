"""Registers of a color's route and switch, in memory: what they hold, and what a write does."""

import numpy as np
import pytest

from appliance.csl.program import (
    Address,
    ColorConfiguration,
    DescriptorConstant,
    DsdOperation,
    FabricInDescriptor,
    FabricOutDescriptor,
    Load,
    MemoryDescriptor,
    OperationSettings,
    Program,
    Register,
    Store,
    SwitchPosition,
)
from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.errors import FabricError
from appliance.fabric.host_interface import Simulator
from tests.support.csl import compile_pe, program_of
from tests.support.fabric_programs import AT, U16, UNBLOCK, ClassBuilder, number, program, straight

WEST, EAST, NORTH, RAMP = 1, 2, 8, 16
COLOR = 1
ROUTE = Address(2 * (0x7F20 + COLOR), "route")
SWITCH = Address(2 * (0x7F40 + COLOR), "switch")
OUT = 0x100
TO_ITSELF = RAMP << 5 | RAMP


def turning(architecture: str) -> Program:
    """A PE that reads its registers, has the color come back to it, and sends itself a word."""
    builder = ClassBuilder()
    builder.array("out", U16, 4)
    settings = OperationSettings()
    color = COLOR if architecture == "wse2" else None
    sent = DescriptorConstant(FabricOutDescriptor(3, color, 1))
    given = DescriptorConstant(FabricInDescriptor(2, None, 1))
    memory = DescriptorConstant(MemoryDescriptor(OUT + 6, 2, 0, (1,), (1,)))
    code = (
        Load(Register(0), ROUTE, 0, AT),
        Store(Address(OUT, "out"), 0, Register(0), U16, AT),
        Load(Register(0), SWITCH, 0, AT),
        Store(Address(OUT + 2, "out"), 0, Register(0), U16, AT),
        Store(ROUTE, 0, number(U16, TO_ITSELF), U16, AT),
        Store(SWITCH, 0, number(U16, 0x0555), U16, AT),
        Load(Register(0), SWITCH, 0, AT),
        Store(Address(OUT + 4, "out"), 0, Register(0), U16, AT),
        DsdOperation(None, "mov16", (sent, number(U16, 77)), settings, AT),
        DsdOperation(None, "mov16", (memory, given), settings, AT),
        UNBLOCK,
    )
    builder.function(straight("f", (U16,), code), exported=True)
    builder.queue(2, COLOR)
    builder.queue(3, COLOR if architecture == "wse3" else None, output=True)
    positions = (SwitchPosition(rx=RAMP, tx=0, valid=True), SwitchPosition(0, NORTH, True))
    entry = ColorConfiguration(
        COLOR, WEST, EAST, positions, 1, ring_mode=True, pop_mode="pop_on_advance"
    )
    return program((builder.build(),), architecture=architecture, routes=((entry,),))


def run(text: Program) -> list[int]:
    """Launch `f`; return what it wrote."""
    simulator = Simulator(text)
    simulator.submit(Launch("f"))
    result = simulator.wait(simulator.submit(CopyOut("out", Region(0, 0, 1, 1), 4, 16)))
    assert result is not None
    return [int(word) for word in np.ravel(result)]


def test_registers_show_the_route_and_a_write_changes_it() -> None:
    route, switch, cleared, received = run(turning("wse2"))
    assert route == EAST | WEST << 5 | 2 << 12  # pop_on_advance
    assert switch == 1 << 13 | 1 << 12 | 5 << 8 | 3 << 4 | 8 | 4  # north out, ramp in
    assert cleared == 0x0555
    assert received == 77


def test_other_machines_have_no_such_registers() -> None:
    with pytest.raises(FabricError, match="0xfe42"):
        run(turning("wse3"))


LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @export_name("f", fn () void);
  @export_name("out", [*]u16, true);
}
"""
PE = """
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const tile = @import_module("<tile_config>");
const there = @get_color(COLOR);
const queue = @get_input_queue(2);
var out = @zeros([4]u16);
var target: [*]u16 = &out;
const given = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = queue });
const sent = @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = @get_output_queue(3),
  .fabric_color = there });
const place = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> out[i] });
fn f() void {
  @mov16(sent, @as(u16, 77));
  @mov16(place, given);
  out[1] = @get_config(tile.color_config.get_color_config_addr(there));
  @set_config(0x7f40 + COLOR, 0x0555);
  out[2] = @get_config(0x7f40 + COLOR);
  sys_mod.unblock_cmd_stream();
}
comptime {
  @block(@get_data_task_id(there));
  @initialize_queue(queue, .{ .color = there });
  @set_local_color_config(there, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ EAST } } });
  @set_config(tile.color_config.get_color_config_addr(there), 0x0210);  // from and to the ramp
  @export_symbol(f);
  @export_symbol(target, "out");
}
"""


def test_a_register_written_at_compile_time_holds_from_the_start() -> None:
    texts = {"layout.csl": LAYOUT, "pe.csl": PE.replace("COLOR", str(COLOR))}
    written = run(program_of(texts, memcpy=True))
    assert written == [77, TO_ITSELF, 0x0555, 0]


@pytest.mark.parametrize(
    ("architecture", "call", "text"),
    [
        ("wse2", "@set_config(0x7b82, 0)", "0x7b82 of a simulated PE: known are 24 for routes"),
        ("wse2", "@set_config(0x7f38, 0)", "0x7f38"),
        ("wse3", "@set_config(0x7f20, 0)", "on wse3 none is known; use <tile_config>"),
    ],
)
def test_a_register_that_is_not_known_is_refused(architecture: str, call: str, text: str) -> None:
    above = f"comptime {{ {call}; @export_symbol(main); }}\nfn main() void {{}}\n"
    assert text in compile_pe(above, architecture=architecture).render()
    inside = f"fn main() void {{ {call}; }}\ncomptime {{ @export_symbol(main); }}\n"
    assert text in compile_pe(inside, architecture=architecture).render()


def test_addresses_of_registers_are_known_on_wse2_only() -> None:
    text = """const tile = @import_module("<tile_config>"); var x: u16 = 0;
fn main() void { x = @as(u16, tile.target.addresses.COLOR_CONFIG); }
comptime { @export_symbol(main); }
"""
    assert compile_pe(text, architecture="wse2").program is not None
    told = compile_pe(text, architecture="wse3").render()
    assert "no register of wse3 is known by its address; use @set_local_color_config" in told


def test_a_register_that_only_the_run_knows_is_refused_there() -> None:
    texts = {"layout.csl": LAYOUT, "pe.csl": PE.replace("COLOR", str(COLOR))}
    texts["pe.csl"] = texts["pe.csl"].replace("@set_config(0x7f40 + 1", "@set_config(out[0]")
    with pytest.raises(FabricError, match=r"pe\.csl:17:\d+: there is no .* 0x004d"):
        run(program_of(texts, memcpy=True))
