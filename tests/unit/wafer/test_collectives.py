import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.wafer.timing import collectives
from benchmarks.wafer_model import reductions

SIMULATOR = {
    2: 10055,
    4: 9421,
    8: 9117,
    16: 8989,
    32: 8973,
    64: 9061,
    128: 9297,
    256: 9800,
    512: 7218,
}


@pytest.mark.parametrize(("size", "cycles"), SIMULATOR.items())
def test_two_phase_reduction_agrees_with_the_official_simulator(size: int, cycles: int) -> None:
    ours = reductions.two_phase_reduce(512, 4096, group_size=size)
    assert ours == pytest.approx(cycles, rel=0.02)


@pytest.mark.parametrize(("words", "cycles"), [(1, 3067), (256, 3322), (1024, 4090), (4096, 7162)])
def test_chain_gives_the_published_values(words: int, cycles: int) -> None:
    assert collectives.chain_reduce(512, words) == cycles


def test_a_last_group_that_is_not_full_counts_as_one() -> None:
    assert reductions.two_phase_reduce(512, 64, group_size=28) == 884


def test_broadcasts_and_star_give_the_published_values() -> None:
    assert collectives.broadcast(512, 256) == 772
    assert collectives.broadcast_2d(512, 512, 256) == 1283
    assert reductions.star_reduce(64, 1) == 68


def test_the_general_form_contains_the_star() -> None:
    words, pes = 7, 33
    star = reductions.general_form(
        contention=words * (pes - 1), energy_per_link=words, distance=0, depth=1
    )
    assert star == reductions.star_reduce(pes, words)


def test_a_wrong_ramp_latency_would_not_fit_the_simulator() -> None:
    assert collectives.chain_reduce(512, 4096, ramp_cycles=7) == 12_272


sizes = st.integers(2, 2000)
lengths = st.integers(1, 10_000)


@settings(max_examples=40, deadline=None)
@given(pes=sizes, words=lengths)
def test_more_words_or_more_pes_never_take_less_time(pes: int, words: int) -> None:
    forms = (
        collectives.broadcast,
        collectives.chain_reduce,
        reductions.star_reduce,
        reductions.tree_reduce,
        reductions.ring_allreduce,
    )
    for form in forms:
        assert form(pes, words + 1) >= form(pes, words)
        assert form(pes + 1, words) >= form(pes, words)


@settings(max_examples=40, deadline=None)
@given(pes=sizes, words=lengths)
def test_the_best_group_is_no_worse_than_any_simple_choice(pes: int, words: int) -> None:
    best = reductions.two_phase_reduce(
        pes, words, group_size=reductions.best_group_size(pes, words)
    )
    assert best <= reductions.two_phase_reduce(pes, words)
    assert best <= collectives.chain_reduce(pes, words)


@settings(max_examples=40, deadline=None)
@given(columns=sizes, rows=sizes, words=lengths)
def test_nothing_beats_the_lower_bound(columns: int, rows: int, words: int) -> None:
    bound = reductions.reduce_2d_lower_bound(columns, rows, words)
    assert reductions.reduce_2d(columns, rows, words) >= words
    assert reductions.snake_reduce(columns, rows, words) >= bound - words / 8


def test_a_collective_without_pes_is_refused() -> None:
    with pytest.raises(ValueError, match="needs PEs"):
        collectives.broadcast(0, 1)
