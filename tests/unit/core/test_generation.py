"""The loop over positions: where tokens go, and when it ends."""

import numpy as np

from appliance.core.plans.generation import Generation, LoopRules, advance, begin, finished

START = 9


def started(*rows: list[int], stop=None, start=(START,), most=None) -> Generation:
    rules = LoopRules(loop_dim=1, start_tokens=start, max_tokens=most)
    sequences = np.array([stop or [[START]]] * len(rows))
    return begin(rules, np.array(rows)[:, :, None], sequences)


def run(state: Generation, updates=None) -> tuple[list[list[int]], list[int]]:
    """Run to the end: each update is 10 times the row's number plus the position, or as given."""
    positions = []
    while state.position is not None:
        positions.append(state.position)
        rows = range(len(state.tokens))
        given = [10 * row + state.position for row in rows] if updates is None else updates.pop(0)
        state = advance(state, np.array(given)[:, None])
    return finished(state)[:, :, 0].tolist(), positions


def test_the_first_token_overwrites_the_first_start_token():
    assert run(started([1, 2, START, START])) == ([[1, 2, 1, 2]], [1, 2])


def test_a_longer_prompt_begins_later_and_the_loop_begins_at_the_shortest():
    tokens, positions = run(started([1, START, START, START], [1, 2, 3, START]))
    assert tokens == [[1, 0, 1, 2], [1, 2, 3, 12]]
    assert positions == [0, 1, 2]


def test_positions_at_which_no_sample_gets_a_token_are_skipped():
    tokens, positions = run(started([1, START, 0, 0, 0], [1, 2, 3, 4, START], most=1))
    assert positions == [0, 3]
    assert tokens == [[1, 0, START, START, START], [1, 2, 3, 4, 13]]


def test_samples_without_a_start_token_are_left_alone():
    assert run(started([0, 0, 0], [1, 2, START])) == ([[0, 0, 0], [1, 2, 11]], [1])


def test_a_start_token_at_the_very_beginning_is_part_of_the_prompt():
    assert run(started([START, 5, START])) == ([[START, 5, 1]], [1])
    assert run(started([START, START, START])) == ([[START, 0, 1]], [0, 1])


def test_any_of_several_start_tokens_begins_and_the_first_fills():
    tokens, _ = run(started([1, 7, 3, 7], start=(8, 7), most=1))
    assert tokens == [[1, 0, 8, 8]]


def test_a_sample_ends_behind_a_stop_sequence_of_several_tokens():
    updates = [[4], [5], [4], [6]]
    tokens, _ = run(
        started([1, START, START, START, START, START], stop=[[4, 6, START], [START] * 3]), updates
    )
    assert tokens == [[1, 4, 5, 4, 6, START]]


def test_the_end_of_the_prompt_is_no_part_of_a_stop_sequence():
    updates = [[6], [1], [2]]
    assert run(started([4, START, START, START], stop=[[4, 6]]), updates)[0] == [[4, 6, 1, 2]]


def test_no_tokens_are_asked_for_and_nothing_changes():
    assert run(started([1, START, 5], most=0)) == ([[1, START, 5]], [])


def test_the_numbers_of_generated_tokens_are_counted():
    state = started([1, START, START], [1, 2, START])
    while state.position is not None:
        state = advance(state, np.zeros((2, 1), np.int64))
    assert state.num_generated == 3
