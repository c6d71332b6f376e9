"""A trace in Chrome's format, as Perfetto reads it: one microsecond stands for one clock cycle."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from appliance.fabric.bytecode import TraceKind
from appliance.fabric.tracing.trace import Trace
from appliance.fabric.tracing.view import bars, line_of

_MOST_PES = 400
"""PEs whose tasks are written unless some are named; a file of more would be too large to open."""
_BUCKETS = 1000

# `Any`: an event is a JSON object.
_Event = dict[str, Any]


def chrome_trace(trace: Trace, *, pes: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return a trace for Perfetto.

    Args:
        pes: Whose tasks and operations are written; empty for the first 400 that do anything.
    """
    tasks = trace.events[trace.events["kind"] >= TraceKind.TASK]
    chosen = pes or tuple(np.unique(tasks["pe"]).tolist()[:_MOST_PES])
    events = [event for pe in chosen for event in _of_pe(trace, pe)]
    return {
        "traceEvents": [*events, *_wavelets(trace)],
        "displayTimeUnit": "ns",
        "otherData": {"time": "simulated; 1 us stands for 1 clock cycle"},
    }


def _of_pe(trace: Trace, pe: int) -> Iterator[_Event]:
    name = f"PE ({pe % trace.width}, {pe // trace.width})"
    yield {"name": "process_name", "ph": "M", "pid": pe + 1, "tid": 0, "args": {"name": name}}
    named: set[int] = set()
    for bar in bars(trace, pe):
        line = line_of(trace, pe, bar.counter)
        if bar.track not in named:
            named.add(bar.track)
            yield _named(pe, bar.track, bar.track_name)
        yield {
            "name": (line.function if bar.track == 0 else line.text or line.function) or "unknown",
            "cat": bar.track_name,
            "ph": "X",
            "ts": bar.start,
            "dur": bar.end - bar.start,
            "pid": pe + 1,
            "tid": bar.track,
            "args": {"source": line.place, "function": line.function},
        }


def _named(pe: int, track: int, name: str) -> _Event:
    return {"name": "thread_name", "ph": "M", "pid": pe + 1, "tid": track, "args": {"name": name}}


def _wavelets(trace: Trace) -> Iterator[_Event]:
    """Yield how many hops wavelets of each color make in a cycle, over a thousandth of the time."""
    hops = trace.events[trace.events["kind"] == TraceKind.HOP]
    if not len(hops):
        return
    first, last = int(hops["cycle"][0]), int(hops["cycle"][-1])
    width = max(1, -(-(last - first + 1) // _BUCKETS))
    for color in np.unique(hops["color"]).tolist():
        cycles = hops["cycle"][hops["color"] == color] - np.uint64(first)
        for bucket, count in enumerate(np.bincount((cycles // np.uint64(width)).astype(np.int64))):
            yield {
                "name": f"hops of color {color} a cycle",
                "ph": "C",
                "pid": 0,
                "tid": 0,
                "ts": first + bucket * width,
                "args": {"hops": int(count) / width},
            }
