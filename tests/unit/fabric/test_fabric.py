"""Routers, queues and microthreads: cycles, order, back-pressure, faults."""

import numpy as np
import pytest
from numpy.typing import NDArray

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
    TaskKind,
)
from appliance.csl.program.operands import DsdOperand
from appliance.fabric.commands import CopyIn, CopyOut, Launch, Region, StreamIn, StreamOut
from appliance.fabric.errors import FabricError, StallError
from appliance.fabric.host_interface import Simulator
from appliance.fabric.options import SimulatorOptions
from tests.support.fabric_programs import AT, F32, UNBLOCK, ClassBuilder, local_task, program
from tests.support.fabric_programs import straight as function

WEST, EAST, RAMP = (direction.bit for direction in (Direction.WEST, Direction.EAST, Direction.RAMP))
DONE = 9
RAMP_CYCLES = 2


def memory(address: int, count: int) -> DescriptorConstant:
    """A DSD over f32 elements."""
    return DescriptorConstant(MemoryDescriptor(address, 4, 0, (count,), (1,)))


def fabric_in(queue: int, count: int) -> DescriptorConstant:
    """A DSD of wavelets to come."""
    return DescriptorConstant(FabricInDescriptor(queue, None, count))


def fabric_out(queue: int, color: int, count: int) -> DescriptorConstant:
    """A DSD of wavelets to send."""
    return DescriptorConstant(FabricOutDescriptor(queue, color, count))


def mover(op: str, *operands: DsdOperand, size: int = 1) -> CodeClass:
    """A class whose exported `f` starts one asynchronous operation and unblocks when it is done."""
    builder = ClassBuilder()
    builder.array("v", F32, size)
    settings = OperationSettings(
        asynchronous=True, completion=Completion.ACTIVATE, target=local_task(DONE)
    )
    start = DsdOperation(None, op, operands, settings, AT)
    builder.function(function("f", (), (start,)), exported=True)
    done = builder.function(function("done", (), (UNBLOCK,)))
    builder.task(TaskKind.LOCAL, DONE, done)
    builder.queue(2, 1)
    builder.queue(3, 0)
    return builder.build()


VECTOR = 0x100
"""Address of the array `v` of each class."""


def chain(
    num_pes: int, count: int, *, reverse_tasks: bool = False
) -> tuple[NDArray[np.float32], int]:
    """Sum vectors along a row from the last PE to the first; colors alternate. Returns cycles."""
    colors = [place % 2 for place in range(num_pes)]  # what PE k sends on
    classes, routes = [], []
    for place in range(num_pes):
        builder = ClassBuilder()
        builder.array("v", F32, count)
        receives, sends = place < num_pes - 1, place > 0
        mine, other = colors[place], 1 - colors[place]
        out: DsdOperand = fabric_out(2, mine, count) if sends else memory(VECTOR, count)
        if receives:
            operands = (out, memory(VECTOR, count), fabric_in(2, count))
        else:
            operands = (out, memory(VECTOR, count))
        settings = OperationSettings(
            asynchronous=True, completion=Completion.ACTIVATE, target=local_task(DONE)
        )
        op = DsdOperation(None, "fadds" if receives else "fmovs", operands, settings, AT)
        builder.function(function("f", (), (op,)), exported=True)
        builder.task(TaskKind.LOCAL, DONE, builder.function(function("done", (), (UNBLOCK,))))
        builder.queue(2, other)
        classes.append(builder.build())
        configured = []
        if sends:
            configured.append(ColorConfiguration(mine, RAMP, WEST))
        if receives:
            configured.append(ColorConfiguration(other, EAST, RAMP))
        routes.append(tuple(sorted(configured, key=lambda entry: entry.color)))
    text = program(tuple(classes), width=num_pes, code=tuple(range(num_pes)), routes=tuple(routes))
    simulator = Simulator(text, options=SimulatorOptions(reverse_tasks=reverse_tasks))
    row = Region(0, 0, num_pes, 1)
    data = np.arange(num_pes * count, dtype=np.float32).reshape(1, num_pes, count)
    simulator.submit(CopyIn("v", row, data.view(np.uint32)))
    before = simulator.submit(CopyOut("v", Region(0, 0, 1, 1), 1))
    simulator.wait(before)
    started = simulator.cycle()
    simulator.submit(Launch("f"))
    simulator.drain()
    cycles = simulator.counters().cycles - started
    result = simulator.wait(simulator.submit(CopyOut("v", Region(0, 0, 1, 1), count)))
    assert result is not None
    return result.reshape(-1).view(np.float32), cycles


def test_a_chain_sums_and_takes_seven_cycles_a_pe_and_one_an_element() -> None:
    """The seventh is the launch's, which travels east to where the chain begins."""
    result, short = chain(3, 16)
    wanted = sum(np.arange(16, dtype=np.float32) + 16 * place for place in range(3))
    assert (result == wanted).all()
    _, longer = chain(3, 80)
    _, wider = chain(19, 16)
    assert longer - short == 64
    assert wider - short == 16 * (2 * RAMP_CYCLES + 2 + 1)


def test_the_order_of_tasks_changes_no_result() -> None:
    forwards, _ = chain(6, 40)
    backwards, _ = chain(6, 40, reverse_tasks=True)
    assert (forwards == backwards).all()


def test_a_run_gives_the_same_cycles_every_time() -> None:
    assert len({chain(7, 33)[1] for _ in range(3)}) == 1


def test_a_multicast_reaches_everyone_and_waits_for_the_slowest() -> None:
    sender = mover("fmovs", fabric_out(3, 1, 40), memory(VECTOR, 40), size=40)
    taker = mover("fmovs", memory(VECTOR, 40), fabric_in(2, 40), size=40)
    routes = (
        (ColorConfiguration(1, RAMP, EAST),),
        (ColorConfiguration(1, WEST, EAST | RAMP),),
        (ColorConfiguration(1, WEST, RAMP),),
    )
    simulator = Simulator(program((sender, taker), width=3, code=(0, 1, 1), routes=routes))
    data = np.arange(40, dtype=np.uint32).reshape(1, 1, 40)
    simulator.submit(CopyIn("v", Region(0, 0, 1, 1), data))
    simulator.submit(Launch("f"))
    result = simulator.wait(simulator.submit(CopyOut("v", Region(1, 0, 2, 1), 40)))
    assert result is not None
    assert (result == data).all()


def test_nobody_takes_the_wavelets_and_the_report_says_so() -> None:
    sender = mover("fmovs", fabric_out(3, 1, 40), memory(VECTOR, 40), size=40)
    routes = ((ColorConfiguration(1, RAMP, EAST),), ())
    simulator = Simulator(
        program(
            (sender, mover("fmovs", memory(VECTOR, 1), fabric_in(3, 1))),
            width=2,
            code=(0, 1),
            routes=routes,
        )
    )
    simulator.submit(Launch("f"))
    with pytest.raises(StallError) as stall:
        simulator.wait(simulator.submit(CopyOut("v", Region(0, 0, 1, 1), 1)))
    text = str(stall.value)
    assert "0 have" in text
    assert "microthread 3 waits for room in output queue 3 (color 1)" in text
    assert "pe.csl:1:1" in text


def test_two_wavelets_of_a_color_in_one_cycle_are_a_fault() -> None:
    sender = mover("fmovs", fabric_out(3, 1, 9), memory(VECTOR, 9), size=9)
    taker = mover("fmovs", memory(VECTOR, 18), fabric_in(2, 18), size=18)
    routes = (
        (ColorConfiguration(1, RAMP, EAST),),
        (ColorConfiguration(1, WEST | EAST, RAMP),),
        (ColorConfiguration(1, RAMP, WEST),),
    )
    simulator = Simulator(program((sender, taker), width=3, code=(0, 1, 0), routes=routes))
    simulator.submit(Launch("f"))
    with pytest.raises(FabricError, match="color 1 arrived from West and East on the same cycle"):
        simulator.wait(simulator.submit(CopyOut("v", Region(0, 0, 1, 1), 1)))


def test_two_operations_on_one_microthread_are_a_fault() -> None:
    builder = ClassBuilder()
    builder.array("v", F32, 4)
    wait = DsdOperation(
        None,
        "fmovs",
        (memory(VECTOR, 4), fabric_in(2, 4)),
        OperationSettings(asynchronous=True),
        AT,
    )
    builder.function(function("f", (), (wait, wait)), exported=True)
    builder.queue(2, 1)
    simulator = Simulator(program((builder.build(),)))
    simulator.submit(Launch("f"))
    with pytest.raises(FabricError, match=r"microthread 2 still runs the operation at pe\.csl:1:1"):
        simulator.wait(simulator.submit(CopyOut("v", Region(0, 0, 1, 1), 1)))


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
def test_a_queue_that_was_never_given_a_color_is_a_fault(architecture: str) -> None:
    builder = ClassBuilder()
    builder.array("v", F32, 4)
    wait = DsdOperation(
        None, "fmovs", (memory(VECTOR, 4), fabric_in(2, 4)), OperationSettings(), AT
    )
    builder.function(function("f", (), (wait,)), exported=True)
    simulator = Simulator(program((builder.build(),), architecture=architecture))
    simulator.submit(Launch("f"))
    with pytest.raises(FabricError, match="input queue 2 has no color: it was not initialised"):
        simulator.wait(simulator.submit(CopyOut("v", Region(0, 0, 1, 1), 1)))


@pytest.mark.parametrize(("size", "stalls"), [(12, False), (14, False), (15, True), (40, True)])
def test_a_stream_through_one_pe_holds_fourteen_wavelets(size: int, stalls: bool) -> None:
    """Input and output are one command after another, so what is between them lies in queues."""
    builder = ClassBuilder()
    passing = DsdOperation(
        None,
        "fmovs",
        (fabric_out(3, 0, size), fabric_in(2, size)),
        OperationSettings(asynchronous=True),
        AT,
    )
    builder.task(TaskKind.LOCAL, DONE, builder.function(function("start", (), (passing,))))
    builder.queue(2, 1)
    builder.extra["active"] = (local_task(DONE),)
    simulator = Simulator(program((builder.build(),)))
    region = Region(0, 0, 1, 1)
    data = np.arange(size, dtype=np.uint32).reshape(1, 1, size)
    simulator.submit(StreamIn(1, region, data))
    out = simulator.submit(StreamOut(0, region, size))
    if stalls:
        with pytest.raises(StallError, match="color 1"):
            simulator.wait(out)
        return
    result = simulator.wait(out)
    assert result is not None
    assert (result == data).all()
