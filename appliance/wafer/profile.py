"""Where a step's simulated time goes: the most expensive modules, and a trace to look at.

A layer step's share of the step is the time until the next one begins, so waiting for weights
counts for the layer that waits, and all shares together are the whole of a micro-batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.wafer.layer_timing import LayerTiming, StepTiming

_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleShare:
    """One row of the profile.

    Attributes:
        module: Module path.
        direction: `fwd` or `bwd`.
        seconds: Simulated time in the module, all micro-batches.
        percent: Of the time of all modules.
    """

    module: str
    direction: str
    seconds: float
    percent: float


def module_shares(timing: StepTiming) -> tuple[ModuleShare, ...]:
    """Return every module and direction, the most expensive first; percentages sum to 100."""
    seconds: dict[tuple[str, str], float] = {}
    for layer, duration in zip(timing.layers, _durations(timing.layers), strict=True):
        key = (layer.module, "bwd" if layer.is_backward else "fwd")
        seconds[key] = seconds.get(key, 0.0) + duration * timing.num_micro_batches
    whole = sum(seconds.values()) or 1.0
    rows = [
        ModuleShare(module=module, direction=direction, seconds=time, percent=100 * time / whole)
        for (module, direction), time in seconds.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.seconds, row.module, row.direction)))


def trace_events(timing: StepTiming) -> list[dict[str, object]]:
    """Return one micro-batch as Chrome trace events (complete events, microseconds).

    One track each for the grid, the weights coming in and the gradients leaving; put the list under
    `traceEvents` of a JSON object to open it in Perfetto.
    """
    tracks = ("compute (simulated)", "weights in (simulated)", "gradients out (simulated)")
    events: list[dict[str, object]] = [
        {"name": "thread_name", "ph": "M", "pid": 0, "tid": index, "args": {"name": track}}
        for index, track in enumerate(tracks)
    ]
    drained = 0.0
    for layer in timing.layers:
        arrival = max(0.0, layer.start_seconds - layer.injection_seconds)
        drained = max(drained, layer.end_seconds)
        spans = (
            (layer.start_seconds, layer.end_seconds - layer.start_seconds),
            (arrival, layer.injection_seconds),
            (drained, layer.drain_seconds),
        )
        drained += layer.drain_seconds
        events.extend(
            {
                "name": layer.name,
                "cat": "bwd" if layer.is_backward else "fwd",
                "ph": "X",
                "pid": 0,
                "tid": track,
                "ts": begin * _MICROSECONDS,
                "dur": length * _MICROSECONDS,
            }
            for track, (begin, length) in enumerate(spans)
            if length > 0
        )
    return events


def _durations(layers: Sequence[LayerTiming]) -> list[float]:
    starts = [layer.start_seconds for layer in layers]
    ends = [*starts[1:], layers[-1].end_seconds] if layers else []
    return [end - start for start, end in zip(starts, ends, strict=True)]
