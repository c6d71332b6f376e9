"""What masks let through, as coordinators report it and users read it."""

import dataclasses
import math

import pytest

from appliance.core.errors import UserError
from appliance.core.sparsity.masked_weights import MaskedWeights
from appliance.wire.job_times import (
    masked_weight_numbers,
    masked_weight_properties,
    masked_weights_of,
    report_of,
)

WEIGHTS = MaskedWeights(
    num_masked=48,
    num_sparse=46,
    num_elements=100_000_000,
    num_nonzeros=10_000_000,
    broadcast_bytes=52_000_000,
    dense_broadcast_bytes=400_000_000,
    simulated_step_seconds=0.001,
    simulated_dense_step_seconds=0.0025,
    dense_because={"the program changes its mask": 2},
)


def test_a_report_carries_everything():
    assert masked_weights_of(report_of(WEIGHTS)) == WEIGHTS


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_sparse": 49},
        {"num_nonzeros": 100_000_001},
        {"num_nonzeros": -1},
        {"broadcast_bytes": -1},
        {"simulated_step_seconds": math.nan},
        {"simulated_dense_step_seconds": math.inf},
    ],
)
def test_a_report_that_cannot_be_is_refused(wrong):
    with pytest.raises(UserError, match="contradict one another"):
        masked_weights_of(report_of(dataclasses.replace(WEIGHTS, **wrong)))


def test_patterns_of_tiny_weights_may_cost_more_than_they_save():
    costly = dataclasses.replace(WEIGHTS, broadcast_bytes=WEIGHTS.dense_broadcast_bytes + 64)
    assert masked_weights_of(report_of(costly)).saved_bytes == -64


def test_of_many_long_reasons_the_first_ones_are_kept_and_cut():
    reasons = {f"{number:04}{'x' * 1000}": 1 for number in range(100)}
    report = report_of(dataclasses.replace(WEIGHTS, dense_because=reasons))
    found = masked_weights_of(report).dense_because
    assert len(found) == 20
    assert max(map(len, found)) == 200


def test_properties_have_numbers_reasons_and_a_text():
    properties = masked_weight_properties(WEIGHTS)
    assert properties["weight_density"] == "0.1"
    assert properties["saved_broadcast_bytes_per_step"] == "348000000"
    assert properties["simulated_sparse_speedup"] == "2.5"
    assert properties["dense_weights_because"] == "2 weights: the program changes its mask"
    assert properties["masked_weights_summary"] == (
        "46 of 48 masked weights are streamed by their non-zeros; masks let through 10 % "
        "of 100 M elements. A step broadcasts 52 MB instead of 400 MB; simulated, it takes 1 ms "
        "instead of 2.5 ms: 2.5 x as fast. Held whole: 2 weights: the program changes its mask."
    )


def test_where_no_weight_is_sparse_nothing_is_said_of_savings():
    whole = MaskedWeights(
        num_masked=1, num_sparse=0, num_elements=4, num_nonzeros=2, dense_because={"x": 1}
    )
    assert masked_weight_numbers(whole) == {
        "masked_weights": 1,
        "sparse_weights": 0,
        "weight_density": 0.5,
    }
    assert not masked_weight_numbers(None)
    assert not masked_weight_properties(None)
