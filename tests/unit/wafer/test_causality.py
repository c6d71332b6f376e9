"""Causal attention is recognised in the program that the real client sends."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from appliance.compiler.importer import import_program
from appliance.compiler.pipeline import compile_graph
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.plan import Precision
from appliance.wafer.timing.causality import _axes_after_ramp
from appliance.wafer.timing.operations import Kind, OperationTable
from appliance.wafer.timing.program_operations import program_step

GPT = (Path(__file__).parents[1] / "compiler" / "programs" / "gpt.mlir").read_text()
COMPARED = 'comparison_direction = "GT"'


def attention(text: str) -> OperationTable:
    """Return the operations of a program; rows other than attention's do nothing."""
    graph = import_program(text)
    plan = compile_graph(graph, key="cs_gpt", batch_size=4, precision=Precision.F32)
    return program_step(plan).table


def causal_flags(text: str) -> list[bool]:
    table = attention(text)
    is_attention = (table.kind == Kind.SCORES) | (table.kind == Kind.CONTEXT)
    return (table.is_causal[is_attention] > 0).tolist()


def test_all_products_of_a_decoders_attention_are_causal_forward_and_backward() -> None:
    assert causal_flags(GPT) == [True] * 12


@pytest.mark.parametrize("direction", ["LT", "GE"])
def test_the_mask_may_be_written_from_either_side(direction: str) -> None:
    assert COMPARED in GPT
    other = GPT.replace(COMPARED, f'comparison_direction = "{direction}"')
    assert all(causal_flags(other))


def test_a_mask_that_is_no_triangle_skips_nothing() -> None:
    diagonal = GPT.replace(COMPARED, 'comparison_direction = "EQ"')
    assert not any(causal_flags(diagonal))


def test_nothing_but_attention_is_ever_causal() -> None:
    table = attention(GPT)
    others = (table.kind != Kind.SCORES) & (table.kind != Kind.CONTEXT)
    assert not table.is_causal[others].any()


@pytest.mark.parametrize(
    ("op", "before", "after", "dimensions", "axis"),
    [
        ("BroadcastInDim", (8,), (4, 8, 8), (1,), 1),
        ("BroadcastInDim", (8,), (4, 8, 8), 2, 0),
        ("BroadcastInDim", (1, 8), (4, 1, 8), (0, 1), 1),
        ("BroadcastInDim", (8,), (4, 8, 8), None, None),
        ("Reshape", (8,), (1, 8, 1), None, 1),
        ("Reshape", (8,), (2, 4), None, None),
        ("Reshape", (8, 8), (64,), None, None),
    ],
)
def test_along_which_axis_from_the_last_a_view_of_a_ramp_rises(
    op: str,
    before: tuple[int, ...],
    after: tuple[int, ...],
    dimensions: tuple[int, ...] | int | None,
    axis: int | None,
) -> None:
    types = {"ramp": TensorType(before, DType.F32), "view": TensorType(after, DType.F32)}
    attributes = {} if dimensions is None else {"broadcast_dimensions": dimensions}
    node = SimpleNamespace(op=op, operands=["ramp"], results=["view"], attributes=attributes)
    assert _axes_after_ramp(SimpleNamespace(types=types), node) == axis  # type: ignore[arg-type]
