"""Estimates of the planner, as text for people and as a document for scripts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from appliance.wafer.planner.report import EstimateReport
from csctl.output.documents.document import Json
from csctl.output.table import Column, render

_COLUMNS: tuple[Column[EstimateReport], ...] = (
    Column(header="SYSTEMS", cell=lambda row: str(row.systems)),
    Column(header="BATCH", cell=lambda row: str(row.batch_size)),
    Column(
        header="MICRO-BATCH",
        cell=lambda row: f"{row.micro_batch} x {row.num_micro_batches}",
    ),
    Column(header="STEP-S", cell=lambda row: f"{row.simulated_step_seconds:.4g}"),
    Column(header="SAMPLES/S", cell=lambda row: f"{row.simulated_samples_per_second:,.1f}"),
    Column(header="TOKENS/S", cell=lambda row: f"{row.simulated_tokens_per_second:,.0f}"),
    Column(header="UTILIZATION", cell=lambda row: f"{row.simulated_utilization:.1%}"),
    Column(header="BOUND", cell=lambda row: row.bound),
    Column(header="WAFER-MEMORY", cell=lambda row: f"{_filled(row):.0%}"),
    Column(header="DAYS", cell=lambda row: f"{row.simulated_days:,.3g}"),
    Column(header="ENERGY-KWH", cell=lambda row: f"{row.simulated_energy_kwh:,.0f}"),
)


_WEAK: Column[EstimateReport] = Column(
    header="SPEEDUP", cell=lambda row: f"{row.weak_scaling[-1].simulated_speedup:.2f}"
)
_STRONG: Column[EstimateReport] = Column(
    header="SPEEDUP", cell=lambda row: f"{row.strong_scaling[-1].simulated_speedup:.2f}"
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
        f"{_count(first.num_parameters)} parameters, "
        f"{_count(first.tokens)} tokens, {_count(first.training_flops)}FLOP, "
        f"MemoryX {_bytes(first.memoryx_bytes)}. All times are simulated."
    )
    parts = [head, render((*_COLUMNS, _STRONG if is_batch_fixed else _WEAK), estimates)]
    if first.expected_loss is not None:
        parts.append(
            f"Expected loss {first.expected_loss:.4f} nats per token, if this compute goes to a "
            "model of the best size, 20 tokens per parameter (Cerebras-GPT scaling law)."
        )
    if first.mup is not None:
        parts.append(
            f"muP: learning rate {first.mup.matrix_learning_rate:.2e} for matrices and "
            f"{first.mup.embedding_learning_rate:.2e} for embeddings, initial deviation "
            f"{first.mup.matrix_deviation:.4f}, logits x {first.mup.output_multiplier:.4f}, "
            f"scores x {first.mup.attention_scale:.5f}."
        )
    return "\n\n".join(parts)


def _filled(row: EstimateReport) -> float:
    return row.memory.bytes_per_pe / row.memory.pe_capacity_bytes


def _count(number: float) -> str:
    for size, letter in (
        (1e24, "Y"),
        (1e21, "Z"),
        (1e18, "E"),
        (1e15, "P"),
        (1e12, "T"),
        (1e9, "B"),
        (1e6, "M"),
    ):
        if number >= size:
            return f"{number / size:,.4g} {letter}"
    return f"{number:,.0f} "


def _bytes(number: float) -> str:
    for size, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if number >= size:
            return f"{number / size:,.4g} {unit}"
    return f"{number:,.0f} B"
