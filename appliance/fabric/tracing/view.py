"""What a trace says about a cycle, a window of cycles, or one PE: pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appliance.fabric.bytecode import NUM_COLORS, TraceKind
from appliance.fabric.tracing.trace import Trace

_WAITS = (TraceKind.HOP, TraceKind.SEND, TraceKind.TAKE, TraceKind.HOST_OUT)
_MAIN_THREAD = 8


class Measure(StrEnum):
    """The quantity that a heat map shows for each PE."""

    NONE = "none"
    WAITING = "waiting"
    TRAFFIC = "traffic"
    OCCUPANCY = "occupancy"
    WORK = "work"


@dataclass(frozen=True, slots=True)
class Moment:
    """The fabric at a cycle.

    Attributes:
        working: PEs whose main thread has a task.
        waiting: For each PE wavelets that wait longer than they have to.
        moving: Events of wavelets that leave a router or come to it from the ramp.
    """

    working: NDArray[np.bool_]
    waiting: NDArray[np.int64]
    moving: NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Bar:
    """A task or an operation.

    Attributes:
        track: 0 for tasks, 1 for the main thread's operations, 2 and more for microthreads.
        start: Cycle in which it begins.
        end: Cycle in which it has ended.
        counter: Program counter.
        is_vector: Whether it is an operation over memory, which does not wait.
    """

    track: int
    start: int
    end: int
    counter: int
    is_vector: bool = False

    @property
    def track_name(self) -> str:
        """The track, for people."""
        return {0: "task", 1: "main thread"}.get(self.track, f"microthread {self.track - 2}")


def moment(trace: Trace, cycle: int) -> Moment:
    """Return the fabric at the end of a cycle."""
    events, count = trace.events, trace.width * trace.height
    until = events[: np.searchsorted(events["cycle"], cycle, side="right")]
    tasks = until[np.isin(until["kind"], (TraceKind.TASK, TraceKind.TASK_END))]
    working = np.zeros(count, dtype=bool)
    working[tasks["pe"]] = tasks["kind"] == TraceKind.TASK  # of several the last one stays
    late = events[np.isin(events["kind"], _WAITS) & (events["b"] > 0)]
    waits = late[
        (late["cycle"] > cycle)
        & (late["cycle"].astype(np.int64) - late["b"].astype(np.int64) <= cycle)
    ]
    now = until[np.searchsorted(until["cycle"], cycle) :]
    return Moment(
        working=working,
        waiting=np.bincount(waits["pe"], minlength=count),
        moving=now[np.isin(now["kind"], (TraceKind.HOP, TraceKind.SEND))],
    )


def measured(trace: Trace, what: Measure, first: int, last: int) -> NDArray[np.float64]:
    """Return a number for each PE, over the events of some cycles."""
    cycles, count = trace.events["cycle"], trace.width * trace.height
    part = trace.events[
        np.searchsorted(cycles, first) : np.searchsorted(cycles, last, side="right")
    ]
    amounts = _amounts(part, what)
    values = np.zeros(count)
    if what is Measure.OCCUPANCY:
        np.maximum.at(values, part["pe"], amounts)
    else:
        np.add.at(values, part["pe"], amounts)
    return values


def _amounts(events: NDArray[np.void], what: Measure) -> NDArray[np.float64]:
    """Return the amount that each event contributes."""
    kind, b = events["kind"], events["b"].astype(np.float64)
    waits = np.isin(kind, _WAITS)
    amounts: NDArray[np.float64] = np.zeros(len(events))
    match what:
        case Measure.NONE:
            pass
        case Measure.TRAFFIC:
            amounts[kind == TraceKind.HOP] = 1
        case Measure.WAITING:
            amounts[waits] = b[waits]
        case Measure.OCCUPANCY:
            queued = waits | (kind == TraceKind.HOST_IN)
            amounts[queued] = (events["more"][queued] & 127) + 1.0
        case Measure.WORK:
            amounts[kind == TraceKind.TASK] = 1
            amounts += np.where(kind == TraceKind.FINISH, np.maximum(b, 1), 0)
            amounts += np.where(kind == TraceKind.VECTOR, b, 0)
    return amounts


def busiest_cycle(trace: Trace) -> int:
    """Return the cycle with most hops; the last one if there are none."""
    hops = trace.events["cycle"][trace.events["kind"] == TraceKind.HOP]
    if not len(hops):
        return int(trace.events["cycle"][-1])
    cycles, counts = np.unique(hops, return_counts=True)
    return int(cycles[np.argmax(counts)])


def used_ports(trace: Trace) -> NDArray[np.uint8]:
    """Return for each PE and color the ports that wavelets have left the router through."""
    hops = trace.events[trace.events["kind"] == TraceKind.HOP]
    used = np.zeros((trace.width * trace.height, NUM_COLORS), dtype=np.uint8)
    np.bitwise_or.at(used, (hops["pe"], hops["color"] % NUM_COLORS), hops["ports"])
    return used


def bars(trace: Trace, pe: int) -> list[Bar]:
    """Return the tasks and operations of one PE, by their beginning."""
    found: list[Bar] = []
    running: dict[int, tuple[int, int]] = {}
    mine = trace.events[(trace.events["pe"] == pe) & (trace.events["kind"] >= TraceKind.TASK)]

    def close(track: int, end: int) -> None:
        if track in running:
            start, counter = running.pop(track)
            found.append(Bar(track, start, max(end, start + 1), counter))

    for cycle, _, counter, b, kind, _, thread, _ in mine.tolist():
        track = _track(kind, thread)
        if kind == TraceKind.VECTOR:
            found.append(Bar(track, cycle, cycle + max(b, 1), counter, is_vector=True))
            continue
        close(track, cycle)
        if kind in (TraceKind.TASK, TraceKind.START):
            running[track] = (cycle, counter)
    end = int(trace.events["cycle"][-1]) if len(trace.events) else 0
    for track in list(running):
        close(track, end)
    return sorted(found, key=lambda bar: (bar.start, bar.track))


def _track(kind: int, thread: int) -> int:
    if kind in (TraceKind.TASK, TraceKind.TASK_END):
        return 0
    return 1 if kind == TraceKind.VECTOR or thread == _MAIN_THREAD else 2 + thread


@dataclass(frozen=True, slots=True)
class Line:
    """Where an instruction stands.

    Attributes:
        place: File and line, empty if they are not known.
        text: The line.
    """

    function: str
    place: str
    text: str


def line_of(trace: Trace, pe: int, counter: int) -> Line:
    """Return the source line of an instruction of a PE."""
    number = int(trace.grid("code")[pe])
    classes: list[dict[str, Any]] = trace.header["classes"]
    found = classes[number]["lines"].get(str(counter)) if number < len(classes) else None
    if found is None:
        return Line("", "", "")
    function, file, line, _, text = found
    files = trace.header["files"]
    place = f"{files[file]}:{line}" if 0 <= file < len(files) else ""
    return Line(str(function), place, str(text))
