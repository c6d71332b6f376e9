"""How much of a decoder's computed time is attention, and that derived traffic explains it.

A published mapping keeps each head on columns of its own; the share of time must then be close to
the share of arithmetic, and what is above it must be what crosses the stripes and is dispatched.
"""

import math

import pytest

from appliance.wafer.hardware import CS2
from appliance.wafer.planner.transformer import Transformer
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.calibration import DEFAULT_CALIBRATION
from appliance.wafer.timing.kernels import operation_cycles
from appliance.wafer.timing.operations import Kind
from appliance.wafer.timing.sample_memory import largest_micro_batch

SCORES_PER_BLOCK, CONTEXTS_PER_BLOCK = 3, 4
"""Forward one of each; backward the scores again and their gradient, and three gradients."""


def seven_billion(sequence: int) -> Transformer:
    return Transformer(
        name="7B",
        layers=32,
        hidden=4096,
        heads=32,
        ffn=11008,
        vocab=32000,
        sequence=sequence,
        is_gated=True,
        is_tied=False,
    )


def attention_share(model: Transformer) -> tuple[float, float]:
    """Return the share of scores and context in the cycles and in the multiply-adds."""
    program = transformer_program(model)
    table = program.table.for_batch(largest_micro_batch(program, CS2))
    cycles = operation_cycles(table, CS2, DEFAULT_CALIBRATION)
    is_attention = (table.kind == Kind.SCORES) | (table.kind == Kind.CONTEXT)
    macs = table.macs() * table.repeat
    return (
        float(cycles[is_attention].sum() / cycles.sum()),
        float(macs[is_attention].sum() / macs.sum()),
    )


@pytest.mark.parametrize("sequence", [2048, 4096, 8192])
def test_a_decoder_spends_on_attention_little_more_than_its_part_of_the_arithmetic(
    sequence: int,
) -> None:
    of_time, of_arithmetic = attention_share(seven_billion(sequence))
    assert of_arithmetic < of_time < 1.5 * of_arithmetic


def test_the_share_at_seven_billion_parameters_is_known() -> None:
    """Where heads took turns on the whole row these were 47 % and 68 %."""
    shares = [attention_share(seven_billion(sequence))[0] for sequence in (2048, 4096)]
    assert shares == pytest.approx([0.060, 0.113], abs=0.002)


@pytest.mark.parametrize("sequence", [2048, 4096])
def test_the_traffic_along_the_stripes_explains_the_time_of_attention(sequence: int) -> None:
    model = seven_billion(sequence)
    program = transformer_program(model)
    table = program.table.for_batch(largest_micro_batch(program, CS2))
    cycles = operation_cycles(table, CS2, DEFAULT_CALIBRATION)
    is_block = table.layer_step == 1
    is_block |= table.layer_step == int(table.layer_step.max()) - 1
    is_attention = ((table.kind == Kind.SCORES) | (table.kind == Kind.CONTEXT)) & is_block
    tokens = math.ceil(float(table.tokens.max()) / CS2.grid_height)
    features = math.ceil(128 / (CS2.grid_width // 32))
    pairs = tokens * (sequence + 1) / 2
    traffic = pairs * (SCORES_PER_BLOCK * 1 + CONTEXTS_PER_BLOCK / 2)
    whole = tokens / DEFAULT_CALIBRATION.multiply_adds_per_cycle
    vector = (whole + 1) / 2 + DEFAULT_CALIBRATION.dispatch(CS2)
    multiply = (SCORES_PER_BLOCK + CONTEXTS_PER_BLOCK) * sequence * features * vector
    assert float(cycles[is_attention].sum()) == pytest.approx(traffic + multiply, rel=0.01)
