"""Where a step's simulated time goes: the most expensive modules, and traces to look at.

A layer step's share of the step is the time until the next one begins, so waiting for weights
counts for the layer that waits, and all shares together are the whole of a micro-batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from appliance.wafer.timing.layer_timing import LayerTiming, StepTiming

_MICROSECONDS = 1e6
BOUNDARY = "iteration boundary"
"""What is left of a step after its last layer step: gradients leave, the update, first weights."""
_SHORTEST_SECONDS = 1e-12
"""Below this a boundary is what subtraction leaves of nothing."""


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


class SpanKind(StrEnum):
    """What a span of a run's trace is."""

    STEP = "step"
    MICRO_BATCH = "micro-batch"
    LAYER_STEP = "layer-step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a run's simulated time.

    Attributes:
        name: As in `blocks.3.fwd`; `step = 2` for what only encloses others.
        direction: `fwd` or `bwd`; empty for anything but a layer step.
        layer_step: Index of the layer step; None for anything else.
        start_seconds: When it begins, from the start of the first span.
        seconds: How long it lasts.
    """

    name: str
    kind: SpanKind
    direction: str
    layer_step: int | None
    start_seconds: float
    seconds: float


def run_spans(timing: StepTiming, steps: range) -> list[Span]:
    """Return the simulated time of some steps as spans on one track, properly nested.

    Layer steps and boundaries follow one another without a gap; their times add up to the whole.

    Args:
        timing: Of each of the steps.
        steps: Their numbers, for the names.
    """
    spans: list[Span] = []
    at = 0.0
    durations = _durations(timing.layers)
    micro_batch_seconds = sum(durations)
    boundary_seconds = timing.seconds - timing.num_micro_batches * micro_batch_seconds

    def add(name: str, kind: SpanKind, seconds: float, layer_step: int | None = None) -> None:
        is_backward = layer_step is not None and timing.layers[layer_step].is_backward
        direction = "" if layer_step is None else "bwd" if is_backward else "fwd"
        spans.append(
            Span(
                name=name,
                kind=kind,
                direction=direction,
                layer_step=layer_step,
                start_seconds=at,
                seconds=seconds,
            )
        )

    for step in steps:
        add(f"step = {step}", SpanKind.STEP, timing.seconds)
        for micro_batch in range(timing.num_micro_batches):
            add(f"micro-batch = {micro_batch}", SpanKind.MICRO_BATCH, micro_batch_seconds)
            for index, seconds in enumerate(durations):
                add(timing.layers[index].name, SpanKind.LAYER_STEP, seconds, index)
                at += seconds
        if boundary_seconds > _SHORTEST_SECONDS:
            add(BOUNDARY, SpanKind.LAYER_STEP, boundary_seconds)
            at += boundary_seconds
    return spans


def _durations(layers: Sequence[LayerTiming]) -> list[float]:
    starts = [layer.start_seconds for layer in layers]
    ends = [*starts[1:], layers[-1].end_seconds] if layers else []
    return [end - start for start, end in zip(starts, ends, strict=True)]
