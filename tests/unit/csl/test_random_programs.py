"""Random programs against a plain model; `make fuzz-csl` runs 10,000 of them."""

import math
import struct

import pytest

from tests.fuzz import values
from tests.support.csl_random import numbers as n
from tests.support.csl_random.numbers import F16, F32, Kind, UnspecifiedError, fused, rounded
from tests.support.csl_random.programs import program


@pytest.mark.parametrize("number", range(5))
def test_a_random_program_leaves_what_the_model_says(number: int) -> None:
    way, text = values.one(("unit", number))
    assert way == "", text


def test_a_program_that_differs_is_told_with_what_it_needs() -> None:
    drawn = program("unit-1-0")
    for at, (text, kind, value) in enumerate(drawn.known):
        drawn.known[at] = (text, kind, 2.5 if kind.is_float else 1 - (int(value) & 1))
    problem = values.problem_of(drawn, "wse2")
    assert problem.startswith("wrong: f0(")
    text = values.smallest(drawn, "wse2", problem)
    assert text.startswith(f"wse2 {drawn.half.name} unit-1-0: wrong: f0(")
    assert "fn work() void {\n\n}" in text


def test_the_model_rounds_once_and_says_what_it_cannot_know() -> None:
    n.HALF.set(n.HALVES["f16"])
    assert rounded(2049, F16) == 2048
    assert rounded(65520, F16) == float("inf")
    assert rounded(2.0**-25, F16) == 0
    assert fused(1.0, 1 + 2.0**-12, 2.0**-24 + 2.0**-40, F32) == 1 + 2.0**-23
    with pytest.raises(UnspecifiedError):
        n.converted(300.0, F32, Kind("u", 8))


@pytest.mark.parametrize("name", n.HALVES)
def test_the_model_has_every_value_of_each_16_bit_format(name: str) -> None:
    half, code = n.HALVES[name], {"f16": "<e"}.get(name)
    for bits in range(0x10000):
        value = half.value(bits)
        if not math.isnan(value):
            assert half.pattern(value) == bits
        if code:
            assert half.value(bits) == pytest.approx(
                struct.unpack(code, bits.to_bytes(2, "little"))[0], rel=0, nan_ok=True
            )
