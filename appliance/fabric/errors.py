"""What goes wrong on the fabric, as people read it."""

from dataclasses import dataclass

from appliance.core.errors import UserError


class FabricError(UserError):
    """A program did what the machine does not allow; the message names PE and source line."""


class UnknownSymbolError(UserError):
    """The program has no such symbol, function or color."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Something that cannot go on.

    Attributes:
        x: Column of the PE in the program's rectangle.
        y: Its row.
        what: The operation, task or wavelet, and what it waits for.
        where: Source position as `file:line:column`, empty if there is none.
        since: Clock cycle of its last progress.
    """

    x: int
    y: int
    what: str
    where: str
    since: int

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
        return "\n".join([head, *found])


_SHOWN = 20


class StallError(FabricError):
    """The host waits for something that cannot happen any more.

    Attributes:
        report: What waits on which PE.
    """

    def __init__(self, report: StallReport) -> None:
        super().__init__(str(report))
        self.report = report
