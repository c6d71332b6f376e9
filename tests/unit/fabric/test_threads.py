"""Nothing depends on the number of threads, and nothing is lost: properties of random programs."""

from collections import defaultdict

import numpy as np
import pytest

from appliance.csl.program import Program
from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from appliance.fabric.options import Counters, SimulatorOptions
from tests.support.fabric_chains import row_chains
from tests.support.fabric_drawings import Drawn, program_of
from tests.support.fabric_pair import FastFabric
from tests.support.fabric_reference.machine import Fabric
from tests.support.fabric_reference.wavelets import Queue, Wavelet, passes_core

CYCLES = 600
SIDE = 40
"""Rows and columns of a grid that keeps two threads busy: each band has more than 384 PEs."""


def everything(drawn: Drawn, num_threads: int, *, slices: int = 1) -> list[object]:
    """Run a program in so many bands; return its whole state, memory and counters."""
    fast = FastFabric(drawn.program, num_threads=num_threads)
    try:
        fast.launch(drawn.functions)
        for feed in drawn.feeds:
            fast.feed(feed)
        for drain in drawn.drains:
            fast.drain(drain)
        for part in range(slices):
            fast.run((part + 1) * CYCLES // slices)
        found: list[object] = [fast.fault, *(fast.kernel.value(fast.handle, n) for n in (0, 6, 7))]
        for number in drawn.functions:
            if fast.is_touched(number):
                size = drawn.program.classes[number].memory_end
                found += [fast.state(number, range(24)), fast.memory(number, size)]
        return [*found, fast.collected()]
    finally:
        fast.close()


@pytest.mark.parametrize("seed", range(100, 130))
def test_bands_of_rows_change_no_bit_and_no_cycle(seed: int) -> None:
    drawn = program_of(seed)
    alone = everything(drawn, 1)
    assert everything(drawn, 2) == alone
    assert everything(drawn, 4) == alone


@pytest.mark.parametrize("seed", range(4))
def test_where_a_run_is_interrupted_changes_nothing(seed: int) -> None:
    drawn = program_of(seed)
    assert everything(drawn, 2, slices=7)[4:] == everything(drawn, 1)[4:]


def chains(program: Program, num_threads: int) -> tuple[bytes, Counters, list[str]]:
    """Sum over every row, on so many threads; return results, counters and what was printed."""
    simulator = Simulator(program, options=SimulatorOptions(num_threads=num_threads))
    simulator.submit(Launch("f"))
    simulator.drain()
    result = simulator.wait(simulator.submit(CopyOut("v", Region(0, 0, 1, SIDE), 200)))
    assert result is not None
    assert (result.view(np.float32) == SIDE).all()
    return result.tobytes(), simulator.counters(), simulator.console()


def test_threads_at_work_change_no_bit_no_cycle_and_no_line() -> None:
    program = row_chains(SIDE, SIDE, 200)
    alone = chains(program, 1)
    assert len(alone[2]) == SIDE * SIDE
    for num_threads in (2, 3):
        assert chains(program, num_threads) == alone


@pytest.mark.parametrize("seed", range(200, 220))
def test_no_wavelet_is_lost_or_doubled_and_each_color_keeps_its_order(seed: int) -> None:
    """On the reference, which agrees with the kernel: all that comes is a beginning of what went.

    Colors with a switch, a filter or a swap anywhere are left out: they drop and divert on purpose.
    """
    drawn = program_of(seed, largest=3, streams=6)
    fabric = Fabric(drawn.program)
    fabric.launch(drawn.functions)
    sent: defaultdict[int, list[Wavelet]] = defaultdict(list)
    come: defaultdict[tuple[int, int], list[Wavelet]] = defaultdict(list)
    for _ in range(300):
        before = [(last(router.inputs), last(router.outputs)) for router in fabric.routers]
        fabric.step()
        if fabric.fault:
            break
        check_room(fabric)
        for router, (inputs, outputs) in zip(fabric.routers, before, strict=True):
            for wavelet in newest(router.outputs, outputs):
                if not (wavelet.is_control and passes_core(wavelet.data)):
                    sent[wavelet.color].append(wavelet)
            for wavelet in newest(router.inputs, inputs):
                come[wavelet.color, router.number].append(wavelet)
    for (color, _), wavelets in come.items():
        if color in plain_colors(drawn.program):
            begun = sent[color][: len(wavelets)]
            assert [(w.data, w.is_control) for w in wavelets] == [
                (w.data, w.is_control) for w in begun
            ]


def last(queues: list[Queue]) -> list[Wavelet | None]:
    """Return the youngest wavelet of each queue."""
    return [queue.wavelets[-1] if queue.wavelets else None for queue in queues]


def newest(queues: list[Queue], before: list[Wavelet | None]) -> list[Wavelet]:
    """Return what has come into queues in a cycle: one wavelet each at most."""
    pairs = zip(queues, before, strict=True)
    return [q.wavelets[-1] for q, old in pairs if q.wavelets and q.wavelets[-1] is not old]


def plain_colors(program: Program) -> set[int]:
    """Return the colors that no router switches, filters or swaps with their partner."""
    entries = [entry for routing in program.routings for entry in routing.colors]
    special = {e.color for e in entries if e.positions or e.filter or e.pop_mode != "no_pop"}
    swapped = {color for e in entries if e.swap_x or e.swap_y for color in (e.color, e.color ^ 1)}
    return {entry.color for entry in entries} - special - swapped


def check_room(fabric: Fabric) -> None:
    """No buffer and no queue holds more than it has room for: credits are never negative."""
    for router in fabric.routers:
        assert all(len(route.buffer) <= 2 for route in router.routes.values())
        assert all(len(q.wavelets) <= q.room for q in [*router.inputs, *router.outputs])
