"""A job's simulated profile: modules by cost, and a trace for Perfetto."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from csctl.output.documents.document import Json
from csctl.output.table import Column
from protos.appliance.appliance_service_pb2 import FinalizeResponse

_Events = Iterable[FinalizeResponse.EventTrace]
_DIRECTIONS = ("fwd", "bwd")
_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One row of a profile.

    Attributes:
        module: Module path, or what else takes time.
        direction: `fwd`, `bwd`, or empty.
        simulated_seconds: Time of a step, all micro-batches.
        percent: Of the whole step.
    """

    module: str
    direction: str
    simulated_seconds: float
    percent: float


def modules(events: _Events) -> list[Module]:
    """Return what takes time in a step, the most expensive first; percentages sum to 100."""
    seconds: dict[tuple[str, str], float] = {}
    for event in events:
        if event.event_type != FinalizeResponse.EventTrace.OP:
            continue
        direction = event.cat if event.cat in _DIRECTIONS else ""
        key = (event.name.removesuffix(f".{direction}"), direction)
        seconds[key] = seconds.get(key, 0.0) + event.dur / _MICROSECONDS
    whole = sum(seconds.values()) or 1.0
    rows = [
        Module(
            module=module,
            direction=direction,
            simulated_seconds=time,
            percent=100 * time / whole,
        )
        for (module, direction), time in seconds.items()
    ]
    return sorted(rows, key=lambda row: (-row.simulated_seconds, row.module, row.direction))


def profile_document(rows: Sequence[Module]) -> Mapping[str, Json]:
    """Return the rows as one document with the key `items`."""
    return {"items": [asdict(row) for row in rows]}


def chrome_trace(events: _Events) -> Mapping[str, Json]:
    """Return the events in Chrome's trace format: complete events, microseconds, one track."""
    spans: list[Json] = [
        {
            "name": event.name,
            "cat": event.cat,
            "ph": "X",
            "ts": event.ts,
            "dur": event.dur,
            "pid": 0,
            "tid": 0,
            "args": {"operations": list(event.pytorch_ops)},
        }
        for event in events
    ]
    return {"traceEvents": spans, "displayTimeUnit": "ms"}


PROFILE_COLUMNS: tuple[Column[Module], ...] = (
    Column(header="MODULE", cell=lambda row: row.module),
    Column(header="DIRECTION", cell=lambda row: row.direction or "-"),
    Column(header="SIMULATED-MS", cell=lambda row: f"{1e3 * row.simulated_seconds:.4g}"),
    Column(header="PERCENT", cell=lambda row: f"{row.percent:.2f}"),
)
