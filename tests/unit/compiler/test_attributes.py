"""Numbers of a program's text: those of the format that was meant."""

import math

import numpy as np
import pytest

from appliance.compiler.syntax.attributes import _round_to
from appliance.core.ir.tensors import DType

EIGHTH_BIT = 2.0**-8
"""Half of the distance between 1 and the next bfloat16 above it."""


@pytest.mark.parametrize(
    ("value", "nearest"),
    [
        (1.0, 1.0),
        (1.0 + EIGHTH_BIT, 1.0),  # as far from both: the even one
        (1.0 + 3 * EIGHTH_BIT, 1.0 + 4 * EIGHTH_BIT),
        (1.0 + 1.01 * EIGHTH_BIT, 1.0 + 2 * EIGHTH_BIT),
        (1.0 + 2.99 * EIGHTH_BIT, 1.0 + 2 * EIGHTH_BIT),
        (-1.0 - 3 * EIGHTH_BIT, -1.0 - 4 * EIGHTH_BIT),
        (0.1, 0.10009765625),
        (math.inf, math.inf),
    ],
)
def test_a_number_of_a_text_is_the_nearest_of_bfloat16(value: float, nearest: float) -> None:
    assert _round_to(np.array([value]), DType.BF16).tolist() == [nearest]


def test_what_is_no_number_stays_none() -> None:
    assert np.isnan(_round_to(np.array([math.nan]), DType.BF16)).all()
