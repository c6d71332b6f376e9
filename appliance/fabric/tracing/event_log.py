"""A trace as text: one line for each event, in the order of cycles."""

from collections.abc import Iterator

import numpy as np

from appliance.fabric.bytecode import TraceKind
from appliance.fabric.tracing.trace import Trace
from appliance.fabric.tracing.view import line_of

_PORTS = ("west", "east", "south", "north", "the ramp")
_TASKS = ("handler", "control task", "data task", "local task", "call of")
"""What began, as the kernel counts them."""
_MAIN_THREAD = 8


def log_lines(
    trace: Trace, *, pes: tuple[int, ...] = (), color: int | None = None
) -> Iterator[str]:
    """Yield the events as lines.

    Args:
        pes: Whose events; empty for all.
        color: Only wavelets of this color; None for all, and what PEs do.
    """
    events = trace.events
    if pes:
        events = events[np.isin(events["pe"], pes)]
    if color is not None:
        events = events[(events["kind"] < TraceKind.TASK) & (events["color"] == color)]
    for event in events:
        pe = int(event["pe"])
        what = _task_text(trace, event) if event["kind"] >= TraceKind.TASK else _wavelet(event)
        yield f"@{int(event['cycle'])} PE ({pe % trace.width}, {pe // trace.width}) {what}"


def _wavelet(event: np.void) -> str:
    data, waited, queue = int(event["a"]), int(event["b"]), int(event["ports"])
    control = "control " if int(event["more"]) & 128 else ""
    left = int(event["more"]) & 127
    name = f"{control}wavelet of color {int(event['color'])} = {data:#010x}"
    rest = f", waited {waited}" if waited else ""
    rest += f", {left} behind it" if left else ""
    match TraceKind(int(event["kind"])):
        case TraceKind.HOP:
            ports = [port for bit, port in enumerate(_PORTS) if queue >> bit & 1]
            return f"routes {name} to {' and '.join(ports) or 'nowhere'}{rest}"
        case TraceKind.SEND:
            return f"sends {name} from output queue {queue}{rest}"
        case TraceKind.TAKE:
            return f"takes {name} from input queue {queue}{rest}"
        case TraceKind.HOST_IN:
            return f"gets {name} from the host in input queue {queue}{rest}"
        case _:
            return f"gives {name} to the host from output queue {queue}{rest}"


def _task_text(trace: Trace, event: np.void) -> str:
    counter, amount, thread = int(event["a"]), int(event["b"]), int(event["ports"])
    kind = TraceKind(int(event["kind"]))
    if kind is TraceKind.TASK_END:
        return "has nothing to run"
    line = line_of(trace, int(event["pe"]), counter)
    place = f" ({line.place})" if line.place else ""
    source = f": {line.text}" if line.text else ""
    who = "the main thread" if thread == _MAIN_THREAD else f"microthread {thread}"
    match kind:
        case TraceKind.TASK:
            what = _TASKS[min(amount >> 8, len(_TASKS) - 1)]
            number = "" if amount >> 8 == len(_TASKS) - 1 else f" {amount & 255}"
            return f"begins {what}{number} {line.function}{place}"
        case TraceKind.START:
            return f"{who} starts an operation of {amount} elements{place}{source}"
        case TraceKind.FINISH:
            return f"{who} has moved {amount} elements{place}{source}"
        case _:
            return f"operates on memory for {amount} cycles{place}{source}"
