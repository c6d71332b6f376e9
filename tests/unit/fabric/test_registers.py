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
from appliance.fabric.simulator import Simulator
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
