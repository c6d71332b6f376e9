"""The kernel against the reference fabric, on random programs, cycle for cycle."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.fabric_drawings import Drawn, program_of, programs
from tests.support.fabric_pair import Outcome, run_both

LIMIT = 400


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs(largest=3))
def test_random_programs_agree_cycle_for_cycle(drawn: Drawn) -> None:
    run_both(drawn.program, drawn.functions, limit=LIMIT, feeds=drawn.feeds, drains=drawn.drains)


@pytest.mark.parametrize("seed", range(24))
def test_programs_of_a_seed_agree_cycle_for_cycle(seed: int) -> None:
    drawn = program_of(seed, largest=4 if seed % 4 == 0 else 3)
    run_both(drawn.program, drawn.functions, limit=LIMIT, feeds=drawn.feeds, drains=drawn.drains)


def test_the_programs_of_these_seeds_move_wavelets_and_come_to_rest() -> None:
    """What the test above compares is worth comparing."""
    outcomes = [outcome_of(seed) for seed in range(6)]
    assert sum(outcome.moves for outcome in outcomes) > 200
    assert sum(not outcome.fault for outcome in outcomes) >= 3


def outcome_of(seed: int) -> Outcome:
    """Run the program of a seed on both, to its end."""
    drawn = program_of(seed, largest=3)
    return run_both(
        drawn.program, drawn.functions, limit=LIMIT, order=1, feeds=drawn.feeds, drains=drawn.drains
    )
