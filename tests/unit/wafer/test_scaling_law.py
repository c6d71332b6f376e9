"""The advice of the Cerebras-GPT paper, against the tables that were published with it.

Both tables are in the README of the Model Zoo's Cerebras-GPT configurations, release 1.9.1.
"""

import pytest

from appliance.wafer.hardware import CS2
from appliance.wafer.planner.planner import estimate
from appliance.wafer.planner.transformer import Transformer, described_transformer

PUBLISHED = {
    "111M": ((10, 768, 12), 9037 * 120, 2.6e18, 2.608),
    "256M": ((14, 1088, 17), 9468 * 264, 1.3e19, 2.349),
    "590M": ((18, 1536, 12), 21836 * 264, 6.1e19, 2.181),
    "1.3B": ((24, 2048, 16), 24334 * 528, 2.8e20, 1.997),
    "2.7B": ((32, 2560, 20), 49041 * 528, 1.1e21, 1.834),
    "6.7B": ((32, 4096, 32), 62522 * 1040, 6.3e21, 1.704),
    "13B": ((40, 5120, 40), 174335 * 720, 2.3e22, 1.572),
}
"""Layers, hidden size and heads; samples of 2,048 tokens; training FLOPs; Pile test loss."""


def cerebras_gpt(size: str) -> Transformer:
    (layers, hidden, heads), *_ = PUBLISHED[size]
    return described_transformer(layers=layers, hidden=hidden, heads=heads)


@pytest.mark.parametrize("size", list(PUBLISHED))
def test_compute_is_the_published_one_to_the_digits_that_are_printed(size: str) -> None:
    _, samples, flops, _ = PUBLISHED[size]
    plan = estimate(cerebras_gpt(size), machine=CS2, tokens=samples * 2048)
    assert f"{plan.flops:.1e}" == f"{flops:.1e}"


@pytest.mark.parametrize("size", list(PUBLISHED))
def test_the_expected_loss_is_near_the_measured_one(size: str) -> None:
    _, samples, _, loss = PUBLISHED[size]
    plan = estimate(cerebras_gpt(size), machine=CS2, tokens=samples * 2048)
    assert plan.loss == pytest.approx(loss, rel=0.0125)


def test_sparse_weights_and_skipped_pairs_do_not_change_what_the_law_counts() -> None:
    dense = described_transformer(layers=4, hidden=512)
    sparse = described_transformer(layers=4, hidden=512, density=0.25)
    plans = [estimate(model, machine=CS2, tokens=1e9) for model in (dense, sparse)]
    assert plans[0].flops == plans[1].flops


def test_what_is_no_decoder_has_no_expected_loss() -> None:
    encoder = described_transformer(layers=4, hidden=512, is_causal=False)
    pair = described_transformer(layers=4, hidden=512, decoder_layers=4)
    assert estimate(encoder, machine=CS2).loss is None
    assert estimate(pair, machine=CS2).loss is None
