"""Cycles of broadcast and star against what arXiv 2404.15888 gives; test_fabric has the chain.

Broadcast: B + P + 2 T_R. Star: B (P - 1) + 2 T_R + 1. What starts the operations is the same for
all sizes, so differences between sizes are held to the forms.
"""

import pytest

from appliance.csl.program import (
    CodeClass,
    ColorConfiguration,
    Completion,
    DescriptorConstant,
    Direction,
    DsdOperation,
    FabricInDescriptor,
    FabricOutDescriptor,
    MemoryDescriptor,
    OperationSettings,
    Program,
    TaskKind,
)
from appliance.csl.program.operands import DsdOperand
from appliance.fabric.commands import Launch
from appliance.fabric.host_interface import Simulator
from tests.support.fabric_programs import AT, F32, ClassBuilder, local_task, program, straight

WEST, EAST, RAMP = Direction.WEST.bit, Direction.EAST.bit, Direction.RAMP.bit
QUEUES = (2, 4, 5, 6, 7)
OUT = 3


def starter(operations: list[tuple[str, tuple[DsdOperand, ...]]], colors: list[int]) -> CodeClass:
    """A class whose exported `f` starts operations; input queues receive `colors`."""
    builder = ClassBuilder()
    builder.array("v", F32, 64)
    done = OperationSettings(
        asynchronous=True, completion=Completion.ACTIVATE, target=local_task(9)
    )
    code = tuple(DsdOperation(None, op, operands, done, AT) for op, operands in operations)
    builder.function(straight("f", (), code), exported=True)
    builder.task(TaskKind.LOCAL, 9, builder.function(straight("done", (), ())))
    for queue, color in zip(QUEUES, colors, strict=False):
        builder.queue(queue, color)
    return builder.build()


def memory(count: int) -> DescriptorConstant:
    return DescriptorConstant(MemoryDescriptor(0x100, 4, 0, (count,), (1,)))


def received(queue: int, count: int) -> DescriptorConstant:
    return DescriptorConstant(FabricInDescriptor(queue, None, count))


def sent(color: int, count: int) -> DescriptorConstant:
    return DescriptorConstant(FabricOutDescriptor(OUT, color, count))


def broadcast(num_pes: int, count: int) -> Program:
    """PE 0 sends, all others take; a row."""
    sender = starter([("fmovs", (sent(1, count), memory(count)))], [])
    taker = starter([("fmovs", (memory(count), received(2, count)))], [1])
    middle = (ColorConfiguration(1, WEST, EAST | RAMP),) * (num_pes - 2)
    configured = (ColorConfiguration(1, RAMP, EAST), *middle, ColorConfiguration(1, WEST, RAMP))
    codes = (0,) + (1,) * (num_pes - 1)
    routes = tuple((entry,) for entry in configured)
    return program((sender, taker), width=num_pes, code=codes, routes=routes)


def star(num_pes: int, count: int) -> Program:
    """All send straight to PE 0, each on its own color; it adds what comes."""
    sums = [
        ("fadds", (memory(count), memory(count), received(queue, count)))
        for queue in QUEUES[: num_pes - 1]
    ]
    classes = [starter([*sums], list(range(1, num_pes)))]
    classes += [
        starter([("fmovs", (sent(color, count), memory(count)))], []) for color in range(1, num_pes)
    ]
    routes = [tuple(ColorConfiguration(c, EAST, RAMP) for c in range(1, num_pes))]
    for place in range(1, num_pes):
        own = ColorConfiguration(place, RAMP, WEST)
        passing = (ColorConfiguration(c, EAST, WEST) for c in range(place + 1, num_pes))
        routes.append((own, *passing))
    return program(tuple(classes), width=num_pes, code=tuple(range(num_pes)), routes=tuple(routes))


def cycles(text: Program) -> int:
    """Run `f` everywhere until nothing moves."""
    simulator = Simulator(text)
    simulator.submit(Launch("f"))
    simulator.drain()
    return simulator.counters().cycles


def test_a_broadcast_takes_a_cycle_for_each_word_and_each_pe() -> None:
    base = cycles(broadcast(4, 16))
    assert cycles(broadcast(4, 64)) - base == 48
    assert cycles(broadcast(20, 16)) - base == 16


@pytest.mark.parametrize("num_pes", [3, 4, 5])
def test_a_star_takes_a_cycle_for_each_word_of_each_other_pe(num_pes: int) -> None:
    assert cycles(star(num_pes, 60)) - cycles(star(num_pes, 20)) == 40 * (num_pes - 1)
