"""A session is loaded, fed, streamed and finished in this order, and nothing else is accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.coordinator.failure import Blame, Failure, JobFailedError, UserFailedError, cause
from appliance.coordinator.run.run_machine import (
    Close,
    Event,
    Fail,
    Finish,
    FinishSteps,
    Ingest,
    JobState,
    Load,
    LoadInput,
    LoadPlan,
    Run,
    SessionPhase,
    StartSteps,
    StopPods,
    Stream,
    advance,
)
from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import ConflictError, WscError

SCHEDULE = RunSchedule(num_steps=3, output_interval=1, checkpoint_steps=frozenset())
LOAD = Load(state=frozenset({"w", "b"}))
RUN = Run(schedule=SCHEDULE)
LOST = Failure(blame=Blame.LOST, message="Pod chief-0 ended.")


def after(*events: Event) -> JobState:
    state = JobState()
    for event in events:
        state, _ = advance(state, event)
    return state


INGESTED = (LOAD, RUN, Ingest(name="w"), Ingest(name="b"))


def test_a_session_goes_through_its_phases_and_says_what_to_do() -> None:
    state, actions = advance(JobState(), LOAD)
    assert (state.phase, actions) == (SessionPhase.LOADED, (LoadPlan(session=1),))
    state, actions = advance(state, RUN)
    assert (state.phase, actions) == (SessionPhase.INGESTING, (LoadInput(session=1),))
    state = after(*INGESTED)
    state, actions = advance(state, Stream())
    assert actions == (StartSteps(session=1, schedule=SCHEDULE),)
    state, actions = advance(state, Finish(wait_for_steps=True))
    assert actions == (FinishSteps(session=1, wait_for_steps=True),)
    assert state.phase is SessionPhase.FINISHED


def test_a_second_session_follows_a_finished_one() -> None:
    state = after(*INGESTED, Stream(), Finish(wait_for_steps=True), LOAD)
    assert (state.session, state.missing) == (2, frozenset({"w", "b"}))


def test_streaming_is_refused_while_tensors_are_missing_and_names_them() -> None:
    with pytest.raises(ConflictError, match="1 state tensors have no value, among them b"):
        advance(after(LOAD, RUN, Ingest(name="w")), Stream())


def test_an_impossible_event_is_refused_with_the_story_of_the_job() -> None:
    with pytest.raises(ConflictError, match=r"cannot load while session 1 is ingesting.*run \(1\)"):
        advance(after(LOAD, RUN), LOAD)


def test_the_first_failure_stays_and_every_later_call_ends_with_it() -> None:
    state = after(LOAD, Fail(failure=LOST))
    again, actions = advance(state, Fail(failure=Failure(blame=Blame.USER, message="other")))
    assert (again, actions) == (state, ())
    with pytest.raises(JobFailedError, match="chief-0 ended"):
        advance(state, RUN)


def test_finishing_a_failed_session_is_accepted_quietly() -> None:
    state = after(LOAD, Fail(failure=LOST))
    assert advance(state, Finish(wait_for_steps=True)) == (state, ())


def test_steps_that_never_began_are_not_waited_for() -> None:
    _, actions = advance(after(LOAD, RUN), Finish(wait_for_steps=True))
    assert actions == (FinishSteps(session=1, wait_for_steps=False),)


def test_closing_stops_the_pods_once() -> None:
    state, actions = advance(after(LOAD), Close(reason="done"))
    assert actions == (StopPods(reason="done"),)
    assert advance(state, Close(reason="done"))[1] == ()


EVENTS: st.SearchStrategy[Event] = st.sampled_from(
    [
        LOAD,
        RUN,
        Ingest(name="w"),
        Ingest(name="b"),
        Stream(),
        Finish(wait_for_steps=True),
        Fail(failure=LOST),
        Close(reason="done"),
    ]
)


@given(st.lists(EVENTS, max_size=30))
def test_no_sequence_of_events_leaves_the_table(events: list[Event]) -> None:
    state = JobState()
    for event in events:
        try:
            new, actions = advance(state, event)
        except WscError:
            continue
        assert new.session >= state.session
        if any(isinstance(action, StartSteps) for action in actions):
            assert not new.missing
            assert new.phase is SessionPhase.STREAMING
        if state.phase in (SessionPhase.FAILED, SessionPhase.CLOSED):
            assert new.phase is state.phase
        state = new


def test_the_users_own_error_is_blamed_before_a_lost_pod_and_that_before_its_peers() -> None:
    peer = Failure(blame=Blame.REPORTED, message="Stream 'broadcast' lost its writer.")
    user = Failure(blame=Blame.USER, message="KeyError", detail="Traceback")
    assert cause([peer, LOST]) is LOST
    assert cause([peer, LOST, user]) is user
    assert isinstance(user.error(), UserFailedError)
    assert str(user.error()) == "KeyError\nTraceback"
