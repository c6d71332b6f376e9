"""Our cycles for the rows that have a program, and errors, fitted and held-out rows apart."""

from collections.abc import Callable, Iterator
from statistics import median

import numpy as np

from appliance.csl.program import Program
from appliance.fabric.bytecode import TraceKind
from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from appliance.fabric.options import SimulatorOptions
from appliance.wafer.hardware import CS2
from benchmarks.fabric_cycles.rows import NOT_REPRODUCED, ROWS, Kind, Row

_TRACE_EVENTS = 1 << 20
_PREPARED = {"collective": "prepare", "blocked": "fill"}
_CONTROL = 128
"""The bit of a trace's `more` that marks a control wavelet."""


def _clock(words: np.ndarray) -> int:
    return int(words[0]) | int(words[1]) << 16 | int(words[2]) << 32


def _of_collective(clocks: np.ndarray, *, is_sum: bool) -> int:
    """Return cycles from the call of the PE that sends first to the end of the one that is last.

    Each clock begins at its PE's launch, one cycle after that of the PE before it.
    """
    before, after = ([_clock(words[at : at + 3]) for words in clocks] for at in (0, 3))
    num_hops = len(clocks) - 1
    return after[0] - before[-1] - num_hops if is_sum else after[-1] + num_hops - before[0]


def _of_words(simulator: Simulator) -> int:
    """Return cycles from the first word that a core sends to the last that one takes.

    A word enters its router `ramp_cycles` after the core has sent it.
    """
    trace = simulator.trace(sources={})
    assert trace is not None
    assert trace.header["num_lost"] == 0
    events = trace.events[(trace.events["more"] & _CONTROL) == 0]
    sent = events["cycle"][events["kind"] == TraceKind.SEND]
    taken = events["cycle"][events["kind"] == TraceKind.TAKE]
    return int(taken.max() - sent.min()) + CS2.ramp_cycles + 1


def _of_product(row: Row, simulator: Simulator, grid: Region) -> int:
    """Return the least cycles that a PE took, as published; check the product of 1 and 2."""
    num_numbers = row.parameters["rows"] * row.parameters["columns"] // (grid.width * grid.height)
    clocks = simulator.wait(simulator.submit(CopyOut("clock", grid, 6, 16)))
    product = simulator.wait(simulator.submit(CopyOut("product", grid, num_numbers)))
    assert clocks is not None
    assert product is not None
    assert (product.view(np.float32) == 2 * row.parameters["depth"]).all()
    return min(_clock(each[3:]) - _clock(each[:3]) for each in clocks.reshape(-1, 6))


def cycles_of(row: Row, program: Program, directory: str) -> float:
    """Run the program of a row; return what it measured."""
    width, height = program.grid.width, program.grid.height
    is_words = row.kind is Kind.COLLECTIVE_WORDS
    options = SimulatorOptions(
        machine_code_directory=directory, trace_events=_TRACE_EVENTS if is_words else 0
    )
    simulator = Simulator(program, options=options)
    if row.program in _PREPARED:
        simulator.submit(Launch(_PREPARED[row.program]))
    simulator.submit(Launch("run"))
    if row.kind is Kind.BLOCKED:
        return _of_product(row, simulator, Region(0, 0, width, height))
    num_words = 3 if row.program == "signal" else 6
    words = simulator.wait(
        simulator.submit(CopyOut("clock", Region(0, height // 2, width, 1), num_words, 16))
    )
    assert words is not None
    if is_words:
        return _of_words(simulator)
    if row.program == "signal":
        return _clock(words[0, -1]) - _clock(words[0, 0])
    if row.program == "collective":
        return _of_collective(words[0], is_sum=bool(row.parameters["is_sum"]))
    measured = words[0, row.pe]
    cycles = _clock(measured[3:]) - _clock(measured[:3])
    return cycles / row.parameters["count"] if row.is_per_task else cycles


def report(compiled: Callable[[Row], Program], directory: str) -> Iterator[str]:
    """Yield a line for each row, and the errors by kind, of fitted and held-out rows apart."""
    errors: dict[tuple[Kind, bool], list[float]] = {}
    for row in ROWS:
        ours = cycles_of(row, compiled(row), directory)
        error = ours / row.cycles - 1
        errors.setdefault((row.kind, row.is_fitted), []).append(abs(error))
        part = "fitted" if row.is_fitted else "held out"
        why = f" ({row.why})" if row.why else ""
        yield f"{row.name}: {ours:.6g} against {row.cycles:g} cycles, {error:+.1%}, {part}{why}"
    for (kind, is_fitted), found in errors.items():
        part = "fitted" if is_fitted else "held out"
        yield f"{part} rows of {kind}: median {median(found):.1%}, worst {max(found):.1%}"
    yield f"{len(NOT_REPRODUCED)} published counts without a program of ours"
