"""A job's life, event by event."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.cluster.jobs import JobType, Phase, may_follow
from appliance.core.ids import JobId, PodName, Role
from appliance.core.pods.end_cause import EndCause
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.job_machine import (
    Admitted,
    CompileFinalized,
    CoordinatorReady,
    EndRequested,
    Enter,
    Explain,
    Launched,
    LaunchFailed,
    LeaseExpired,
    LimitReached,
    PodExited,
    Preempted,
    Rejected,
    Remind,
    Reported,
    Stopped,
    StopPods,
    TellCoordinator,
    TimeElapsed,
    Unexpected,
)
from appliance.management.reconciler.verdicts import HOW_TO_GO_ON

ADMITTED = Admitted(systems=("s0",))
TO_RUNNING = (ADMITTED, Launched(), CoordinatorReady())


def pod_exit(role: Role = Role.WEIGHT, exit_code: int = 137) -> PodExited:
    return PodExited(
        pod=PodName(f"wsjob-x-{role.value}-0"),
        role=role,
        exit_code=exit_code,
        reason=f"exited with code {exit_code}",
    )


def end(phase: Phase, message: str = "") -> EndRequested:
    return EndRequested(phase=phase, message=message)


def run(*events: machine.Event, type_: JobType = JobType.EXECUTE):
    """Return the state after the events, and the actions of the last one."""
    state = machine.JobState(job=JobId("wsjob-x"), type=type_, phase=Phase.QUEUED)
    actions: tuple[machine.Action, ...] = ()
    for event in events:
        state, actions = machine.transition(state, event)
    return state, actions


def test_a_job_runs_when_its_coordinator_listens():
    state, actions = run(*TO_RUNNING)
    assert state.phase is Phase.RUNNING
    assert actions == (Enter(phase=Phase.RUNNING),)


def test_a_coordinator_that_registers_before_the_launch_is_confirmed_is_not_forgotten():
    state, actions = run(ADMITTED, CoordinatorReady(), Launched())
    assert state.phase is Phase.RUNNING
    assert actions == (Enter(phase=Phase.RUNNING, through=Phase.INITIALIZING),)


def test_a_killed_pod_fails_the_job_by_name_and_lets_the_client_know_first():
    state, actions = run(*TO_RUNNING, pod_exit())
    assert state.phase is Phase.FAILING
    entered, told, reminded = actions
    assert isinstance(entered, Enter)
    assert "wsjob-x-weight-0" in entered.message
    assert "exited with code 137" in entered.message
    assert told == TellCoordinator(reason=entered.message, is_failure=True, pod="wsjob-x-weight-0")
    assert isinstance(reminded, Remind)
    assert reminded.seconds < 10
    state, actions = machine.transition(state, TimeElapsed())
    assert actions == (StopPods(),)
    state, actions = machine.transition(state, Stopped())
    assert actions == (Enter(phase=Phase.FAILED, message=entered.message),)


def test_a_killed_coordinator_stops_the_job_at_once():
    _, actions = run(*TO_RUNNING, pod_exit(Role.COORDINATOR))
    assert StopPods() in actions


@pytest.mark.parametrize(("exit_code", "word"), [(75, "does not answer"), (76, "was frozen")])
def test_a_pod_that_gives_its_coordinator_up_blames_the_coordinator(exit_code, word):
    state, _ = run(*TO_RUNNING, pod_exit(Role.ACTIVATION, exit_code))
    assert state.verdict is not None
    assert f"first failed pods: [wsjob-x-coordinator-0]: {word}" in state.verdict.message
    assert "wsjob-x-activation-0 has given it up" in state.verdict.message
    state, _ = run(*TO_RUNNING, pod_exit(Role.COORDINATOR, exit_code))
    assert f"[wsjob-x-coordinator-0]: exited with code {exit_code}" in state.verdict.message


def test_the_coordinators_own_report_replaces_what_was_concluded_from_an_exit():
    report = Reported(phase=Phase.FAILED, message="KeyError: 'x' in your dataloader")
    state, actions = run(*TO_RUNNING, pod_exit(Role.WORKER, 1), report)
    assert actions == (Explain(message=report.message),)
    _, actions = machine.transition(machine.transition(state, TimeElapsed())[0], Stopped())
    assert actions == (Enter(phase=Phase.FAILED, message=report.message),)


def test_the_report_that_all_pods_have_registered_changes_nothing():
    state, actions = run(*TO_RUNNING, Reported(phase=Phase.RUNNING, message=""))
    assert (state.phase, actions) == (Phase.RUNNING, ())


def test_a_reported_failure_outlives_the_pods_that_end_after_it():
    report = Reported(phase=Phase.FAILED, message="no such op")
    state, _ = run(*TO_RUNNING, report, pod_exit(Role.COORDINATOR, 0), Stopped())
    assert state.phase is Phase.FAILED
    assert state.verdict is not None
    assert state.verdict.message == "no such op"


def test_a_pod_that_ends_in_order_before_the_coordinator_fails_nothing():
    state, actions = run(*TO_RUNNING, pod_exit(Role.CHIEF, 0))
    assert state.phase is Phase.RUNNING
    assert actions == ()


def test_a_finished_execute_job_waits_for_the_clients_word():
    state, actions = run(*TO_RUNNING, pod_exit(Role.COORDINATOR, 0), Stopped())
    assert state.phase is Phase.RUNNING
    assert isinstance(actions[0], Remind)
    state, _ = machine.transition(state, end(Phase.CANCELLED, "Ctrl-C"))
    assert state.phase is Phase.CANCELLED


def test_a_finished_execute_job_has_succeeded_if_the_client_says_nothing():
    state, _ = run(*TO_RUNNING, pod_exit(Role.COORDINATOR, 0), Stopped(), TimeElapsed())
    assert state.phase is Phase.SUCCEEDED


def test_a_compile_job_succeeds_once_its_artifacts_were_recorded():
    compile_ = JobType.COMPILE
    ended = (pod_exit(Role.COORDINATOR, 0), Stopped())
    state, _ = run(*TO_RUNNING, CompileFinalized(), *ended, type_=compile_)
    assert state.phase is Phase.SUCCEEDED
    state, _ = run(*TO_RUNNING, *ended, type_=compile_)
    assert state.phase is Phase.CANCELLED


def test_a_queued_job_is_cancelled_without_further_ado():
    state, actions = run(end(Phase.CANCELLED, "enough"))
    assert actions == (Enter(phase=Phase.CANCELLED, message="enough"),)
    assert state.phase is Phase.CANCELLED


def test_a_running_job_is_stopped_before_it_counts_as_cancelled():
    state, actions = run(*TO_RUNNING, end(Phase.CANCELLED))
    assert state.phase is Phase.RUNNING
    assert isinstance(actions[0], TellCoordinator)
    state, actions = machine.transition(state, pod_exit(Role.COORDINATOR, 0))
    assert actions == (StopPods(),)
    state, _ = machine.transition(state, Stopped())
    assert state.phase is Phase.CANCELLED


def test_a_client_that_learnt_of_a_failure_ends_the_grace_period():
    state, actions = run(*TO_RUNNING, pod_exit(), end(Phase.FAILED, "seen"))
    assert actions == (StopPods(),)
    assert state.phase is Phase.FAILING


def test_an_expired_lease_cancels_with_a_reason():
    state, _ = run(*TO_RUNNING, LeaseExpired(seconds=30), TimeElapsed(), Stopped())
    assert state.phase is Phase.CANCELLED
    assert state.verdict is not None
    assert "30 seconds" in state.verdict.message


def test_a_driver_runs_as_soon_as_its_pod_was_started():
    state, actions = run(ADMITTED, Launched(), type_=JobType.DRIVER)
    assert state.phase is Phase.RUNNING
    assert actions == (Enter(phase=Phase.RUNNING, through=Phase.INITIALIZING),)


def test_a_driver_ends_as_its_script_does():
    started = (ADMITTED, Launched())
    good, _ = run(*started, pod_exit(Role.DRIVER, 0), Stopped(), type_=JobType.DRIVER)
    bad, _ = run(*started, pod_exit(Role.DRIVER, 3), Stopped(), type_=JobType.DRIVER)
    assert good.phase is Phase.SUCCEEDED
    assert bad.phase is Phase.FAILED
    assert "the script exited with code 3" in bad.verdict.message


def test_a_driver_that_is_cancelled_is_stopped_at_once():
    cancel = end(Phase.CANCELLED, "enough")
    _, actions = run(ADMITTED, Launched(), cancel, type_=JobType.DRIVER)
    assert actions == (StopPods(),)


def test_a_launch_that_fails_fails_the_job():
    state, actions = run(ADMITTED, LaunchFailed(message="no memory"))
    assert StopPods() in actions
    state, _ = machine.transition(state, Stopped())
    assert state.phase is Phase.FAILED


def test_a_launch_that_fails_leaves_a_job_that_ends_anyway_its_own_end():
    cancelled, _ = run(ADMITTED, end(Phase.CANCELLED))
    state, actions = machine.transition(cancelled, LaunchFailed(message="its node does not answer"))
    assert actions == (StopPods(),)
    assert machine.transition(state, LaunchFailed(message="again"))[1] == ()
    state, _ = machine.transition(state, Stopped())
    assert state.phase is Phase.CANCELLED


def test_a_job_that_can_never_run_fails_in_the_queue():
    state, _ = run(Rejected(message="requested 3, 2 exist"))
    assert state.phase is Phase.FAILED


RUNNING = (ADMITTED, Launched(), CoordinatorReady())


def test_a_preempted_job_goes_back_into_the_queue_once_its_pods_are_gone():
    state, _ = run(*RUNNING, Preempted(message="p"), TimeElapsed())
    assert (state.phase, state.is_stopping, state.is_ending) == (Phase.RUNNING, True, True)
    state, actions = machine.transition(state, Stopped())
    assert state == machine.JobState(job=state.job, type=state.type, phase=Phase.QUEUED)
    assert actions == (Enter(phase=Phase.QUEUED, message="p"),)


def test_the_clients_word_counts_even_after_preemption():
    state, _ = run(*RUNNING, Preempted(message="p"), end(Phase.CANCELLED), Stopped())
    assert state.phase is Phase.CANCELLED


def test_a_preempted_job_that_its_client_ends_tells_of_both():
    state, actions = run(*RUNNING, Preempted(message="preempted by u"))
    assert isinstance(actions[0], TellCoordinator)
    assert actions[0].is_preemption
    state, _ = run(
        *RUNNING, Preempted(message="preempted by u"), end(Phase.FAILED, "lost it"), Stopped()
    )
    assert state.phase is Phase.FAILED
    assert state.verdict.message == "preempted by u; then its client ended it: lost it"


def disruption(role=Role.CHIEF):
    return replace(pod_exit(role, 143), cause=EndCause.DRAINED, is_disruption=True)


@pytest.mark.parametrize("type_", [JobType.COMPILE, JobType.EXECUTE])
@pytest.mark.parametrize("started", [(ADMITTED,), (ADMITTED, Launched())])
@pytest.mark.parametrize("role", [Role.COORDINATOR, Role.CHIEF])
def test_a_disrupted_job_whose_client_has_no_coordinator_yet_is_queued_again(type_, started, role):
    state, actions = run(*started, disruption(role), type_=type_)
    assert actions == (StopPods(),)
    state, actions = machine.transition(state, CoordinatorReady())
    assert actions == ()  # too late: no client is to find it
    state, (entered,) = machine.transition(state, Stopped())
    assert state == machine.JobState(job=state.job, type=type_, phase=Phase.QUEUED)
    assert f"wsjob-x-{role.value}-0 exited with code 143" in entered.message


def test_a_disrupted_job_that_its_client_works_with_fails_and_the_client_is_told_how_to_go_on():
    state, (entered, told, _) = run(*TO_RUNNING, disruption())
    assert state.phase is Phase.FAILING
    assert (told.is_failure, told.is_preemption) == (True, True)
    assert "wsjob-x-chief-0" in told.reason
    state, (entered, stop) = run(*TO_RUNNING, disruption(Role.COORDINATOR))
    assert stop == StopPods()
    assert "wsjob-x-coordinator-0" in entered.message
    assert entered.message.endswith(HOW_TO_GO_ON)
    state, _ = run(ADMITTED, CoordinatorReady(), disruption())
    assert state.phase is Phase.FAILING


def test_a_drivers_pod_that_is_lost_and_revived_goes_back_into_the_queue():
    lost = replace(pod_exit(Role.DRIVER), revival="the pod was lost")
    state, actions = run(ADMITTED, Launched(), lost, type_=JobType.DRIVER)
    assert actions == (StopPods(),)
    state, actions = machine.transition(state, Stopped())
    assert actions == (Enter(phase=Phase.QUEUED, message="the pod was lost"),)
    state, _ = run(ADMITTED, Launched(), pod_exit(Role.DRIVER), Stopped(), type_=JobType.DRIVER)
    assert state.phase is Phase.FAILED


def test_a_driver_that_may_not_go_on_is_stopped_at_once_for_it_has_no_coordinator():
    started = (ADMITTED, Launched())
    state, actions = run(*started, Preempted(message="suspended"), type_=JobType.DRIVER)
    assert (state.phase, actions) == (Phase.RUNNING, (StopPods(),))
    state, _ = run(*started, Preempted(message="suspended"), Stopped(), type_=JobType.DRIVER)
    assert state.phase is Phase.QUEUED
    state, _ = run(*started, LimitReached(seconds=60.0), Stopped(), type_=JobType.DRIVER)
    assert state.phase is Phase.FAILED


def test_a_job_at_its_time_limit_fails_and_its_client_is_told():
    state, actions = run(*RUNNING, LimitReached(seconds=60.0))
    assert state.phase is Phase.FAILING
    assert "job time limit reached: it has run for 60 seconds" in str(actions)
    state, _ = run(*RUNNING, LimitReached(seconds=60.0), TimeElapsed(), Stopped())
    assert state.phase is Phase.FAILED


EVENTS = st.sampled_from(
    [
        ADMITTED,
        Rejected(message="r"),
        Launched(),
        LaunchFailed(message="l"),
        CoordinatorReady(),
        CompileFinalized(),
        LeaseExpired(seconds=30),
        Preempted(message="p"),
        LimitReached(seconds=60.0),
        TimeElapsed(),
        Stopped(),
        *(Reported(phase=phase, message="m") for phase in Phase),
        *(pod_exit(role, code) for role in Role for code in (0, 1, 137)),
        *map(disruption, Role),
        *(end(phase) for phase in (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)),
    ]
)


@given(st.sampled_from(JobType), st.lists(EVENTS, max_size=30))
def test_the_machine_never_leaves_its_table(type_, events):
    state = machine.JobState(job=JobId("wsjob-x"), type=type_, phase=Phase.QUEUED)
    phase = state.phase
    for event in events:
        state, actions = machine.transition(state, event)
        for action in actions:
            if isinstance(action, Enter):
                for entered in filter(None, (action.through, action.phase)):
                    assert may_follow(phase, entered), (phase, entered, event)
                    phase = entered
        assert phase is state.phase


@given(st.sampled_from(JobType), st.lists(EVENTS, max_size=20))
def test_a_job_that_is_ended_reaches_its_end(type_, events):
    state = machine.JobState(job=JobId("wsjob-x"), type=type_, phase=Phase.QUEUED)
    for event in (*events, end(Phase.CANCELLED), TimeElapsed(), Stopped(), TimeElapsed()):
        state, _ = machine.transition(state, event)
    assert state.phase.is_terminal


@pytest.mark.parametrize(
    ("events", "event"),
    [
        ((ADMITTED,), ADMITTED),
        ((ADMITTED,), Rejected(message="no")),
        (TO_RUNNING, ADMITTED),
        (TO_RUNNING, Launched()),
        (TO_RUNNING, LaunchFailed(message="no")),
        (TO_RUNNING, Reported(phase=Phase.SCHEDULED, message="")),
        ((), Preempted(message="for another")),
        ((end(Phase.CANCELLED),), ADMITTED),
        ((end(Phase.CANCELLED),), Preempted(message="for another")),
    ],
)
def test_what_cannot_happen_in_a_state_changes_nothing_and_is_told_of(events, event):
    before, _ = run(*events)
    assert machine.transition(before, event) == (before, (Unexpected(event=event),))


@pytest.mark.parametrize(
    ("events", "event"),
    [
        ((), pod_exit()),
        ((), Stopped()),
        ((), Launched()),
        ((), CoordinatorReady()),
        (TO_RUNNING, CoordinatorReady()),
        ((ADMITTED, Launched(), end(Phase.CANCELLED)), Launched()),
        ((ADMITTED, Launched(), end(Phase.CANCELLED)), LaunchFailed(message="no")),
        ((end(Phase.CANCELLED),), pod_exit()),
        ((end(Phase.CANCELLED),), LeaseExpired(seconds=30)),
    ],
)
def test_what_comes_too_late_is_no_news(events, event):
    before, _ = run(*events)
    _, actions = machine.transition(before, event)
    assert not any(isinstance(action, Unexpected | Enter) for action in actions)
