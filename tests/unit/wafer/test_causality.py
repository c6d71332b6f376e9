"""Causal attention is recognised in the program that the real client sends."""

from pathlib import Path

import pytest

from appliance.compiler.importer import import_program
from appliance.compiler.pipeline import compile_graph
from appliance.core.plans.plan import Precision
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
