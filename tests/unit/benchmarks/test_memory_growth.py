"""How much of a role's memory is growth with the steps, and which roles are told of."""

import pytest

from benchmarks.memory_growth import growth, lines

KIB = 1024


def looks(size_at, *, steps=range(0, 5001, 100)):
    return [(step, size_at(step)) for step in steps]


@pytest.mark.parametrize(
    ("size_at", "expected"),
    [
        (lambda step: 50 << 20, 0.0),
        (lambda step: (50 << 20) + 512 * step, 512.0),
        (lambda step: (50 << 20) - 512 * step, -512.0),
        (lambda step: (50 << 20) + 10_000 * min(step, 1000), 0.0),  # warm-up
        (lambda step: (50 << 20) + 150 * KIB * (step // 100 % 2), 0.0),  # an allocator's noise
    ],
)
def test_growth_is_what_a_step_takes_once_everything_is_warm(size_at, expected):
    assert growth(looks(size_at)) == pytest.approx(expected, abs=5)


def test_a_role_that_grows_misses_its_bar_and_one_that_ended_early_is_left_out():
    found = {
        "chief": looks(lambda step: 50 << 20),
        "coordinator": looks(lambda step: (50 << 20) + 512 * step),
        "driver": looks(lambda step: 50 << 20, steps=range(0, 501, 100)),
    }
    assert list(lines("sparse", found)) == [
        "growth.sparse.chief 0.000 <=0.1 ok",
        "growth.sparse.coordinator 0.500 <=0.1 MISSED",
    ]
