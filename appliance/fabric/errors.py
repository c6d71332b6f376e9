"""Errors of simulated programs, as messages for people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from appliance.core.errors import UserError
from appliance.fabric.bytecode import Fault


class FabricError(UserError):
    """A program did what the machine does not allow; the message names PE and source line."""


class UnknownSymbolError(UserError):
    """The program has no such symbol, function or color."""


Place = tuple[int, int]
"""Column and row of a PE in the program's rectangle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Something that cannot go on.

    Attributes:
        x: Column of the PE in the program's rectangle.
        y: Its row.
        what: The operation, task or wavelet, and what it waits for.
        where: Source position as `file:line:column`, empty if there is none.
        since: Clock cycle of its last progress.
        color: The color that it waits for, None for none.
        on: PEs of which one would have to send or take something.
    """

    x: int
    y: int
    what: str
    where: str
    since: int
    color: int | None = None
    on: tuple[Place, ...] = ()

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return f"PE ({self.x}, {self.y}): {self.what}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StallReport:
    """Why nothing moves any more.

    Attributes:
        reason: What the host waits for.
        cycle: Clock cycle in which the last wavelet moved or instruction ran.
        waiting: What cannot go on, by PE.
    """

    reason: str
    cycle: int
    waiting: tuple[Waiting, ...]

    def __str__(self) -> str:
        shown = [f"  {entry}" for entry in self.waiting[:_SHOWN]]
        rest = len(self.waiting) - len(shown)
        more = [f"  and {rest:,} more"] if rest > 0 else []
        found = shown + more or ["  No task, operation or wavelet is waiting on any PE."]
        head = f"Nothing has moved since simulated cycle {self.cycle:,}: {self.reason}"
        return "\n".join([head, *found, *_circle_lines(find_circle(self.waiting))])


_SHOWN = 20


def find_circle(waiting: Sequence[Waiting]) -> tuple[Waiting, ...]:
    """Return a cycle of PEs that wait for each other, in order; empty if there is none.

    Something counts only if every PE that could help it waits itself: with one that does not, it
    is that one's fault.
    """
    by_place: dict[Place, Waiting] = {}
    for entry in waiting:
        if entry.on:
            by_place.setdefault((entry.x, entry.y), entry)
    done: set[Place] = set()
    for start in by_place:
        path: list[Place] = []
        at: Place | None = start
        while at is not None and at not in done:
            done.add(at)
            path.append(at)
            found = by_place[at].on
            at = found[0] if all(each in by_place for each in found) else None
            if at in path:
                return tuple(by_place[each] for each in path[path.index(at) :])
    return ()


def _circle_lines(circle: Sequence[Waiting]) -> Iterator[str]:
    if not circle:
        return
    steps = [f"PE ({each.x}, {each.y}) for color {each.color}" for each in circle[:_SHOWN]]
    steps += ["..."] * (len(circle) > _SHOWN)
    first = f"PE ({circle[0].x}, {circle[0].y})"
    yield f"  These wait for each other in a circle: {' from '.join(steps)} from {first}."


class StallError(FabricError):
    """The host waits for something that cannot happen any more.

    Attributes:
        report: What waits on which PE.
    """

    def __init__(self, report: StallReport) -> None:
        super().__init__(str(report))
        self.report = report


FAULT_TEXTS = {
    Fault.MEMORY: "an access of {b} bytes at {a:#06x} goes beyond this PE's data, "
    "which end at {size:#06x}.",
    Fault.INDEX: "index {index} is outside array '{array}' (0 to {last}).",
    Fault.ASSERTION: "@assert does not hold.",
    Fault.DIVISION: "an integer is divided by zero.",
    Fault.MICROTHREAD_BUSY: "microthread {a} still runs the operation at {other}; two operations "
    "that run at a time need two microthreads.",
    Fault.QUEUE_BUSY: "{queue} is still in use by the operation{other}; operations that run at a "
    "time need queues of their own.",
    Fault.TWO_ARRIVALS: "color {color} arrived from {first} and {second} on the same cycle, which "
    "a router cannot take.{senders}",
    Fault.NO_TASK: "no task is bound to id {b}, which a wavelet names.",
    Fault.NULL_FUNCTION: "a call through the function pointer {a}, which points at no function "
    "of as many parameters.",
    Fault.NO_QUEUE: "{queue} has no color: it was not initialised.",
    Fault.BAD_OPERAND: "the DSR {b} of file {a} is used before it is loaded.",
    Fault.STACK: "calls or @map are nested too deeply ({a}).",
    Fault.FIFO_FAULT: "FIFO {a} was used while empty or full, which its action makes a fault.",
    Fault.NO_SWITCH: "color {a} has no switch.",
    Fault.NO_REGISTER: "{unknown}.",
    Fault.NO_DSD: "an operand is no DSD: its variable was never given one, or was written over.",
    Fault.NO_OPERAND: "a DSD of an operation cannot be {way}.",
    Fault.NO_END: "an operation over memory alone has no end: its DSDs have the length 0x7fff.",
    Fault.NO_FIFO: "there is no FIFO {a}.",
}
"""What a fault of the kernel is, in words; names stand for what the kernel tells with it."""
FAULT_HINTS = {
    Fault.NO_QUEUE: "Call @initialize_queue in a comptime block.",
    Fault.BAD_OPERAND: "Call @load_to_dsr before the operation.",
    Fault.TWO_ARRIVALS: "Let one neighbour at a time send on this color, or use a switch.",
}
"""What to do about it, where that is not said."""
