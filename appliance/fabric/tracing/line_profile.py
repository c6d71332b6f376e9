"""Cycles by source line, from a trace: which lines take the time, on all PEs or on some.

Three kinds of time are told apart. An operation over memory takes its cycles from the task. An
operation that may wait (on the fabric, a FIFO, or asynchronous) lasts from its start to its end,
beside the task if a microthread has it. What of a task's time is no operation is scalar code, and
is counted at the task's own line.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from appliance.fabric.bytecode import TraceKind
from appliance.fabric.tracing.trace import Trace
from appliance.fabric.tracing.view import Bar, bars, line_of

Place = tuple[str, int]
"""File and line; an empty file where it is not known."""


@dataclass(slots=True)
class LineCost:
    """What a line took, summed over PEs.

    Attributes:
        text: The line.
        runs: How often a task began there, or an operation.
        scalar: Cycles of a task's code but for its operations.
        vector: Cycles of operations over memory.
        waiting: Cycles from start to end of operations that may wait.
    """

    text: str = ""
    function: str = ""
    runs: int = 0
    scalar: int = 0
    vector: int = 0
    waiting: int = 0

    @property
    def cycles(self) -> int:
        """All of them; those of operations on microthreads are beside the others."""
        return self.scalar + self.vector + self.waiting


def profile(trace: Trace, *, pes: tuple[int, ...] = ()) -> dict[Place, LineCost]:
    """Return what each line took, the most cycles first.

    Args:
        pes: On which PEs; empty for all.
    """
    worked = trace.events[trace.events["kind"] >= TraceKind.TASK]
    chosen = pes or tuple(np.unique(worked["pe"]).tolist())
    found: defaultdict[Place, LineCost] = defaultdict(LineCost)
    for pe in chosen:
        _add(trace, pe, bars(trace, pe), found)
    ordered = sorted(found.items(), key=lambda item: (-item[1].cycles, item[0]))
    return dict(ordered)


def _add(trace: Trace, pe: int, all_bars: list[Bar], found: dict[Place, LineCost]) -> None:
    tasks = [bar for bar in all_bars if bar.track == 0]
    inner = [bar for bar in all_bars if bar.track == 1]
    for bar in all_bars:
        cost, length = _at(trace, pe, bar, found), bar.end - bar.start
        cost.runs += 1
        if bar.track == 0:
            cost.scalar += length
        elif bar.is_vector:
            cost.vector += length
        else:
            cost.waiting += length
    at = 0
    for task in tasks:
        cost = _at(trace, pe, task, found)
        while at < len(inner) and inner[at].start < task.end:
            if inner[at].start >= task.start:
                cost.scalar -= min(inner[at].end, task.end) - inner[at].start
            at += 1


def _at(trace: Trace, pe: int, bar: Bar, found: dict[Place, LineCost]) -> LineCost:
    line = line_of(trace, pe, bar.counter)
    file, _, number = line.place.rpartition(":")
    cost = found[file, int(number or 0)]
    cost.text = cost.text or line.text
    cost.function = cost.function or line.function
    return cost


def profile_lines(costs: dict[Place, LineCost], most: int) -> Iterator[str]:
    """Yield a profile as a table, at most so many lines of code."""
    total = sum(cost.cycles for cost in costs.values()) or 1
    yield f"{'cycles':>12} {'':>6} {'scalar':>10} {'memory':>10} {'fabric':>10} {'runs':>8}  line"
    for (file, number), cost in list(costs.items())[:most]:
        place = f"{file}:{number}" if file else "unknown"
        yield (
            f"{cost.cycles:>12,} {cost.cycles / total:>6.1%} {cost.scalar:>10,} {cost.vector:>10,} "
            f"{cost.waiting:>10,} {cost.runs:>8,}  {place}: {cost.text or cost.function}"
        )
    if len(costs) > most:
        yield f"and {len(costs) - most} lines more"
