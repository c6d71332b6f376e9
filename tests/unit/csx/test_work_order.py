import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.errors import InternalError
from workers.csx.work_order import MAX_LAYER_STEPS_HELD, Action, CsxState, after, next_action


def run(num_steps, num_layer_steps, arrivals, runs_ahead=False):
    """Run a session; `arrivals` says which attempts succeed. Return actions and states."""
    state = CsxState(num_steps=num_steps, num_layer_steps=num_layer_steps, runs_ahead=runs_ahead)
    actions, states = [], [state]
    arrivals = iter(arrivals)
    while (action := next_action(state)) is not Action.END:
        state = after(state, action, arrived=next(arrivals, True))
        actions.append(action)
        states.append(state)
    return actions, states


sessions = st.tuples(
    st.integers(0, 4), st.integers(1, 6), st.lists(st.booleans(), max_size=80), st.booleans()
)


def test_one_layer_step_is_taken_computed_and_given_back():
    actions, _ = run(1, 1, [])
    assert [action.value for action in actions] == [
        "take-batch", "acquire", "begin", "finish", "release", "drop-batch"
    ]  # fmt: skip


def test_the_next_weights_are_asked_for_before_the_current_ones_are_used():
    actions, _ = run(1, 2, [])
    assert [action.value for action in actions] == [
        "take-batch", "acquire", "begin", "prefetch", "finish", "release", "begin", "finish",
        "release", "drop-batch",
    ]  # fmt: skip


def test_weights_that_were_not_there_yet_are_waited_for():
    actions, _ = run(1, 2, [True, True, True, False])
    assert [action.value for action in actions][3:] == [
        "prefetch", "finish", "release", "acquire", "begin", "finish", "release", "drop-batch"
    ]  # fmt: skip


def test_the_next_layer_step_begins_before_the_current_one_is_finished():
    actions, _ = run(2, 2, [], runs_ahead=True)
    assert [action.value for action in actions][11:] == [
        "take-batch", "begin", "prefetch", "begin-ahead", "finish", "release", "finish",
        "release", "drop-batch",
    ]  # fmt: skip


def test_without_room_for_its_sums_the_next_layer_step_begins_when_it_is_the_current_one():
    actions, _ = run(2, 2, [True] * 14 + [False], runs_ahead=True)
    assert [action.value for action in actions][14:] == [
        "begin-ahead", "finish", "release", "begin", "finish", "release", "drop-batch"
    ]  # fmt: skip


def test_the_first_weights_of_the_next_step_are_prefetched_in_the_last_layer_step():
    _, states = run(2, 2, [])
    last = next(state for state in states if state.layer_step == 1 and state.num_held == 2)
    assert last.step == 0
    assert last.next_layer_step == 0


@given(sessions)
def test_never_more_than_the_current_and_the_next_weights_are_held(session):
    _, states = run(*session)
    assert all(0 <= state.num_held <= MAX_LAYER_STEPS_HELD for state in states)
    assert states[-1].num_held == 0


@given(sessions)
def test_every_layer_step_is_computed_once_in_order_with_weights_and_batch(session):
    num_steps, num_layer_steps, _, _ = session
    actions, states = run(*session)
    computed = []
    for action, state in zip(actions, states, strict=False):
        if action is Action.FINISH:
            assert state.num_held >= 1
            assert state.has_batch
            computed.append((state.step, state.layer_step))
    assert computed == [
        (step, layer_step) for step in range(num_steps) for layer_step in range(num_layer_steps)
    ]


@given(sessions)
def test_a_layer_step_begins_once_with_its_weights_and_batch_and_before_it_is_finished(session):
    num_steps, num_layer_steps, _, _ = session
    actions, states = run(*session)
    begun, num_finished = [], 0
    for action, state, later in zip(actions, states, states[1:], strict=False):
        if action is Action.BEGIN:
            assert state.num_held >= 1
            begun.append((state.step, state.layer_step))
        if action is Action.BEGIN_AHEAD and later.has_begun_ahead:
            assert state.num_held == MAX_LAYER_STEPS_HELD
            begun.append((state.step, state.next_layer_step))
        num_finished += action is Action.FINISH
        assert num_finished <= len(begun) <= num_finished + 2
        assert state.has_batch or len(begun) == num_finished
    assert begun == [
        (step, layer_step) for step in range(num_steps) for layer_step in range(num_layer_steps)
    ]


@given(sessions)
def test_every_batch_is_taken_and_dropped_once(session):
    actions, _ = run(*session)
    assert actions.count(Action.TAKE_BATCH) == actions.count(Action.DROP_BATCH) == session[0]


def test_an_action_out_of_turn_is_our_defect():
    state = CsxState(num_steps=1, num_layer_steps=1)
    with pytest.raises(InternalError, match="cannot finish"):
        after(state, Action.FINISH)
