"""Encoder-decoder models, described by their dimensions."""

import pytest

from appliance.core.errors import UserError
from appliance.wafer.hardware import CS2
from appliance.wafer.planner.planner import estimate
from appliance.wafer.planner.transformer import Transformer, described_transformer
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.operations import Kind


def t5(**changes: int) -> Transformer:
    """T5 3B (Raffel et al. 2020): 32 heads of 128 features on a hidden size of 1,024."""
    dimensions = {
        "layers": 24,
        "decoder_layers": 24,
        "hidden": 1024,
        "heads": 32,
        "head_width": 128,
        "ffn": 16384,
        "vocab": 32128,
        "sequence": 512,
        "decoder_sequence": 114,
        **changes,
    }
    return described_transformer(**dimensions)  # type: ignore[arg-type]


def test_t5_has_its_published_size_and_both_sequences() -> None:
    assert t5().num_parameters == pytest.approx(2.85e9, rel=0.01)
    program = transformer_program(t5())
    assert program.tokens_per_sample == 512 + 114
    names = [layer.name for layer in program.layers]
    assert names[1] == "encoder.0.fwd"
    assert names.index("encoder.23.fwd") < names.index("decoder.0.fwd") < names.index("head.fwd")
    assert names.index("decoder.0.bwd") < names.index("encoder.23.bwd")


def test_the_decoder_attends_causally_to_itself_and_fully_to_the_source() -> None:
    program = transformer_program(t5())
    table, index = program.table, [layer.name for layer in program.layers].index("decoder.5.fwd")
    rows = (table.layer_step == index) & (table.kind == Kind.SCORES)
    asked = zip(table.queries[rows], table.sequence[rows], table.is_causal[rows], strict=True)
    assert sorted(asked) == [(114, 114, 1), (114, 512, 0)]
    first = (table.layer_step == 1) & (table.kind == Kind.SCORES)
    assert not table.is_causal[first].any()


def test_gradients_of_cross_attention_do_as_much_arithmetic_as_its_products() -> None:
    program = transformer_program(t5())
    table, macs = program.table, program.table.macs()
    steps = {layer.name: index for index, layer in enumerate(program.layers)}
    attention = (table.kind == Kind.SCORES) | (table.kind == Kind.CONTEXT)

    def done(name: str) -> float:
        return float(macs[attention & (table.layer_step == steps[name])].sum())

    assert done("decoder.0.bwd") == pytest.approx(2 * done("decoder.0.fwd"))


def test_a_decoder_without_cross_attention_would_be_an_encoder_of_its_length() -> None:
    """Weights of a decoder block are those of an encoder block and one attention more."""
    model = t5()
    assert model.decoder_block_weights - model.block_weights == 4 * 1024 * 4096


def test_t5_is_estimated_like_any_other_model() -> None:
    plan = estimate(t5(), machine=CS2, num_systems=4)
    assert plan.name == "encoder-decoder 2.85 B"
    assert plan.step.memory.fits
    assert plan.tokens_per_second == pytest.approx(plan.step.samples_per_second * 626)
    assert plan.mup is not None
    assert plan.weak_scaling[-1].speedup > 3.5


def test_longer_targets_take_longer_and_need_more_of_the_wafer() -> None:
    short, long = (
        estimate(t5(decoder_sequence=length), machine=CS2, batch_size=100, micro_batch=10)
        for length in (114, 1024)
    )
    assert long.step.seconds > short.step.seconds
    assert long.step.memory.working_bytes > short.step.memory.working_bytes


@pytest.mark.parametrize(
    "change", [{"decoder_layers": -1}, {"decoder_sequence": 0}, {"head_width": 0}]
)
def test_an_impossible_description_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(UserError, match=next(iter(change))):
        t5(**change)


def test_a_target_without_a_decoder_is_refused() -> None:
    with pytest.raises(UserError, match="need a decoder"):
        t5(decoder_layers=0)
