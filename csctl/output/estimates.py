"""Estimates of the planner, as text for people and as a document for scripts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from appliance.core.quantities import count, duration, figure, percent, quantity, size
from appliance.wafer.planner.report import EstimateReport
from csctl.output.documents.document import Json
from csctl.output.table import Column, render

_DAY_SECONDS = 86_400


def _interval(row: EstimateReport) -> str:
    low, high = row.simulated_samples_per_second_low, row.simulated_samples_per_second_high
    return f"{figure(low)} to {figure(high)}"


_COLUMNS: tuple[Column[EstimateReport], ...] = (
    Column(header="SYSTEMS", cell=lambda row: str(row.systems)),
    Column(header="BATCH", cell=lambda row: str(row.batch_size)),
    Column(
        header="MICRO-BATCH",
        cell=lambda row: f"{row.micro_batch} x {row.num_micro_batches}",
    ),
    Column(header="STEP", cell=lambda row: duration(row.simulated_step_seconds)),
    Column(header="SAMPLES/S", cell=lambda row: figure(row.simulated_samples_per_second)),
    Column(header="INTERVAL", cell=_interval),
    Column(header="TOKENS/S", cell=lambda row: count(row.simulated_tokens_per_second)),
    Column(header="UTILIZATION", cell=lambda row: percent(row.simulated_utilization)),
    Column(header="BOUND", cell=lambda row: row.bound),
    Column(header="WAFER-MEMORY", cell=lambda row: percent(_filled(row))),
    Column(header="TIME", cell=lambda row: duration(row.simulated_days * _DAY_SECONDS)),
    Column(header="ENERGY", cell=lambda row: quantity(row.simulated_energy_kwh * 1000, "Wh")),
)


_WEAK: Column[EstimateReport] = Column(
    header="SPEEDUP", cell=lambda row: f"{figure(row.weak_scaling[-1].simulated_speedup)} x"
)
_STRONG: Column[EstimateReport] = Column(
    header="SPEEDUP", cell=lambda row: f"{figure(row.strong_scaling[-1].simulated_speedup)} x"
)


def estimate_document(estimates: Sequence[EstimateReport]) -> Mapping[str, Json]:
    """Return estimates as one document with the key `items`."""
    document: Mapping[str, Json] = json.loads(json.dumps({"items": list(map(asdict, estimates))}))
    return document


def estimate_text(estimates: Sequence[EstimateReport], *, is_batch_fixed: bool) -> str:
    """Return what was estimated, one row for each number of systems, and the advice.

    Args:
        estimates: Of one model on one machine, at least one.
        is_batch_fixed: Whether the batch stays when the systems grow; the speed-up is over one
            system with the same batch, else with the same share of it.
    """
    first = estimates[0]
    head = (
        f"{first.model} on {first.machine}, {first.execution}: "
        f"{count(first.num_parameters)} parameters, "
        f"{count(first.tokens)} tokens, {quantity(first.training_flops, 'FLOP')}, "
        f"MemoryX {size(first.memoryx_bytes)}. All times are simulated."
    )
    parts = [head, render((*_COLUMNS, _STRONG if is_batch_fixed else _WEAK), estimates)]
    parts.append(_trust(estimates))
    if first.expected_loss is not None:
        parts.append(
            f"Expected loss {figure(first.expected_loss)} nats per token, if this compute goes to "
            "a model of the best size, 20 tokens per parameter (Cerebras-GPT scaling law)."
        )
    if first.mup is not None:
        parts.append(
            f"muP: learning rate {figure(first.mup.matrix_learning_rate)} for matrices and "
            f"{figure(first.mup.embedding_learning_rate)} for embeddings, initial deviation "
            f"{figure(first.mup.matrix_deviation)}, logits x "
            f"{figure(first.mup.output_multiplier)}, scores x {figure(first.mup.attention_scale)}."
        )
    return "\n\n".join(parts)


def _trust(estimates: Sequence[EstimateReport]) -> str:
    """Return what the interval means, and what of the estimates was never measured."""
    outside = dict.fromkeys(each for row in estimates for each in row.outside_of_measured)
    meaning = (
        "INTERVAL: samples/s if the model errs as it did for the worst log of a model that it was "
        "not fitted to (docs/wafer-timing.md)."
    )
    if not outside:
        return meaning
    return (
        f"{meaning} Never measured, and therefore twice as wide: {', '.join(outside)}; in "
        "parentheses what was."
    )


def _filled(row: EstimateReport) -> float:
    return row.memory.bytes_per_pe / row.memory.pe_capacity_bytes
