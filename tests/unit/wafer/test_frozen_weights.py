"""Jobs that do not train every weight: adapters beside frozen weights (LoRA), and evaluation."""

from dataclasses import replace

import pytest

from appliance.core.errors import UserError
from appliance.core.plans.plan import Execution
from appliance.wafer.hardware import CS2, CS3
from appliance.wafer.planner.planner import estimate
from appliance.wafer.planner.transformer import Transformer, described_transformer
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.operations import Kind

LLAMA_3_8B = described_transformer(
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    ffn=14336,
    vocab=128256,
    sequence=2048,
    is_gated=True,
    is_tied=False,
)
SPARSE_LORA = ((0.25, 1.35), (0.5, 1.46), (0.75, 1.57))
"""Published: zeros, and samples per second over those of dense weights; one CS-3, batch 256."""
SMALL = Transformer(name="small", layers=2, hidden=64, heads=4, ffn=256, vocab=100, sequence=32)


def _rate(model: Transformer) -> float:
    return estimate(model, machine=CS3, batch_size=256).step.samples_per_second


def test_sparse_lora_gains_about_what_was_measured() -> None:
    lora = replace(LLAMA_3_8B, lora_rank=16)
    dense = _rate(lora)
    for zeros, published in SPARSE_LORA:
        gain = _rate(replace(lora, density=1 - zeros)) / dense
        assert gain == pytest.approx(published, rel=0.16), zeros


def test_less_is_done_the_less_is_trained() -> None:
    full, lora = _rate(LLAMA_3_8B), _rate(replace(LLAMA_3_8B, lora_rank=16))
    evaluation = _rate(replace(LLAMA_3_8B, is_evaluation=True))
    assert full < lora < evaluation < 4 * full


def test_adapters_alone_have_gradients() -> None:
    model = replace(SMALL, lora_rank=8, density=0.5)
    program = transformer_program(model)
    # Of each block: qkv 64 -> 192, projection 64 -> 64, in 64 -> 256, out 256 -> 64.
    adapters = 2 * 8 * (64 + 192 + 64 + 64 + 64 + 256 + 256 + 64)
    assert program.num_trained == adapters
    assert sum(layer.gradient_elements * layer.gradient_density for layer in program.layers) == (
        adapters
    )
    assert program.updated_share == 1
    weights = program.table.kind == Kind.WEIGHT_GRADIENT
    assert weights.sum() == 2 * 4 * 2
    assert (program.table.density[weights] == 1).all()


def test_an_evaluation_has_no_backward_pass_and_keeps_nothing_for_one() -> None:
    program = transformer_program(replace(SMALL, is_evaluation=True))
    assert not any(layer.is_backward or layer.gradient_elements for layer in program.layers)
    assert program.boundary_bytes_per_sample == 0
    training = transformer_program(SMALL)
    assert program.working_bytes_per_sample < training.working_bytes_per_sample
    step = estimate(replace(SMALL, is_evaluation=True), machine=CS2, batch_size=4).step
    assert step.update_seconds == step.reduction_seconds == 0


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (replace(SMALL, lora_rank=8), "frozen weights"),
        (replace(SMALL, is_evaluation=True), "an evaluation"),
    ],
)
def test_neither_was_measured_nor_has_a_loss_by_the_scaling_law(
    model: Transformer, said: str
) -> None:
    found = estimate(model, machine=CS2, batch_size=4)
    assert any(said in each for each in found.trust.outside)
    assert found.loss is None
    assert found.mup is None
    assert found.tokens == 1000 * 4 * 32


def test_frozen_weights_take_less_of_memoryx() -> None:
    full = estimate(SMALL, machine=CS2, batch_size=4).memoryx_bytes
    evaluation = estimate(replace(SMALL, is_evaluation=True), machine=CS2, batch_size=4)
    assert evaluation.memoryx_bytes == full / 5


@pytest.mark.parametrize("change", [{"lora_rank": -1}, {"lora_rank": 8, "is_evaluation": True}])
def test_what_makes_no_sense_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(UserError, match=r"lora_rank is -1|evaluation trains no adapters"):
        described_transformer(layers=2, hidden=64, **change)


def test_pipelined_execution_is_refused_for_them() -> None:
    with pytest.raises(UserError, match="all weights only"):
        estimate(
            replace(SMALL, lora_rank=8), machine=CS2, batch_size=4, execution=Execution.PIPELINED
        )
    chosen = estimate(replace(SMALL, lora_rank=8), machine=CS2, batch_size=4, execution=None)
    assert chosen.execution is Execution.WEIGHT_STREAMING
