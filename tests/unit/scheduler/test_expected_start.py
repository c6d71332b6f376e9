"""Expected starts rest on the running job's own steps, then on its like, then on limits."""

from dataclasses import replace

import pytest

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.run import CompletedSessions, RunProgress
from appliance.core.ids import WorkflowId
from appliance.scheduler.run_time import Basis, Estimate
from appliance.scheduler.snapshot import WorkflowReservation
from tests.support.scheduling import HOUR, cluster, cycle, execute, held

NOW = 1000.0
TWO_SESSIONS = CompletedSessions(count=2, longest_seconds=172.0)
HISTORY = Estimate(expected_seconds=HOUR, bound_seconds=1.5 * HOUR, basis=Basis.PROGRAM)


def progress(step: int, *, pace: float = 0.4, at: float = NOW) -> RunProgress:
    return RunProgress(
        session=1, num_steps=600, completed_steps=step, step_seconds=pace, at_seconds=at
    )


def start_behind(grant, **fields):
    snapshot = cluster(1, grant, now_seconds=NOW, **fields)
    return cycle(snapshot, [execute("a", 1)]).waits["a"]


def test_a_job_at_step_169_of_600_ends_when_its_steps_do():
    wait = start_behind(held("r", "s0", started_seconds=NOW - 80, progress=progress(169)))
    start = wait.expected_start
    assert start.at_seconds == pytest.approx(NOW + 431 * 0.4)
    assert start.basis == "end of r, by its own steps: step 169 of 600, 2 min 52 s to go"
    assert "expected to start in 2 min 52 s (end of r, by its own steps" in wait.reason
    assert not start.is_promised


def test_before_its_second_step_what_its_like_took_tells():
    grant = held("r", "s0", started_seconds=NOW, estimate=HISTORY, progress=progress(0, pace=0.0))
    start = start_behind(grant).expected_start
    assert (start.at_seconds, start.basis) == (
        NOW + HOUR,
        "end of r, by earlier runs of the program",
    )


def test_steps_tell_more_than_what_its_like_took_even_if_that_is_longer():
    slow = progress(1, pace=36.0)
    grant = held("r", "s0", started_seconds=NOW, estimate=HISTORY, progress=slow)
    start = start_behind(grant).expected_start
    assert start.at_seconds == pytest.approx(NOW + 599 * 36.0)
    assert "step 1 of 600, 5 h 59 min to go" in start.basis


def test_between_sessions_another_like_the_longest_is_expected():
    grant = held("r", "s0", started_seconds=NOW - 300, completed=TWO_SESSIONS)
    start = start_behind(grant).expected_start
    assert start.at_seconds == NOW + 172
    assert start.basis == (
        "end of r, by its own sessions: 2 complete, another like the longest takes 2 min 52 s; "
        "it has no time limit"
    )
    assert not start.is_promised
    begun = replace(grant, progress=progress(0, pace=0.0))
    assert start_behind(begun).expected_start == start
    stepping = replace(grant, progress=progress(599))
    assert "by its own steps" in start_behind(stepping).expected_start.basis


def test_earlier_runs_of_the_program_tell_more_than_sessions_until_they_are_outlived():
    grant = held("r", "s0", started_seconds=NOW, estimate=HISTORY, completed=TWO_SESSIONS)
    start = start_behind(grant).expected_start
    assert (start.at_seconds, start.basis) == (
        NOW + HOUR,
        "end of r, by earlier runs of the program",
    )
    outlived = replace(grant, started_seconds=NOW - HOUR)
    assert "by its own sessions" in start_behind(outlived).expected_start.basis
    other = replace(grant, estimate=replace(HISTORY, basis=Basis.USER))
    assert "by its own sessions" in start_behind(other).expected_start.basis


def test_a_limit_ends_a_job_before_another_session():
    grant = replace(held("r", "s0", ends_in=NOW + 60), completed=TWO_SESSIONS)
    start = start_behind(grant).expected_start
    assert (start.at_seconds, start.basis) == (NOW + 60, "end of r, by time limit")
    later = replace(held("r", "s0", ends_in=NOW + HOUR), completed=TWO_SESSIONS)
    start = start_behind(later).expected_start
    assert start.at_seconds == NOW + 172
    assert start.basis.endswith("another like the longest takes 2 min 52 s")


def test_a_limit_ends_a_job_before_its_last_step():
    grant = replace(held("r", "s0", ends_in=NOW + 60), progress=progress(169))
    start = start_behind(grant).expected_start
    assert (start.at_seconds, start.basis) == (NOW + 60, "end of r, by time limit")
    assert start.is_promised


def test_a_job_that_should_have_ended_is_expected_to_end_now():
    grant = held("r", "s0", started_seconds=0.0, progress=progress(599, at=NOW - 5))
    assert start_behind(grant).expected_start.at_seconds == NOW


def test_without_steps_history_or_limit_the_default_is_no_promise():
    start = start_behind(held("r", "s0", started_seconds=NOW)).expected_start
    assert start.basis == "end of r, by default: no time limit, and no earlier run of its user"
    assert not start.is_promised


def test_nobody_is_told_when_a_workflow_gives_up_what_it_retains():
    retained = WorkflowReservation(workflow=WorkflowId("w"), systems=("s0",))
    jobs = [execute(f"j{number}", 1, sequence=number) for number in range(3)]
    waits = cycle(cluster(1, now_seconds=NOW, reservations=(retained,)), jobs).waits
    assert [wait.expected_start for wait in waits.values()] == [None] * 3
    assert all("expected to start" not in wait.reason for wait in waits.values())
    until = replace(retained, until_seconds=NOW + HOUR)
    waits = cycle(cluster(1, now_seconds=NOW, reservations=(until,)), jobs).waits
    assert waits["j0"].expected_start.at_seconds == NOW + HOUR


def test_beside_what_a_workflow_retains_starts_are_expected_as_ever():
    retained = WorkflowReservation(workflow=WorkflowId("w"), systems=("s0",))
    running = held("r", "s1", started_seconds=NOW - 80, progress=progress(169))
    snapshot = cluster(2, running, now_seconds=NOW, reservations=(retained,))
    waits = cycle(snapshot, [execute("one", 1, sequence=1), execute("two", 2, sequence=2)]).waits
    assert waits["one"].expected_start.at_seconds == pytest.approx(NOW + 431 * 0.4)
    assert waits["two"].expected_start is None


def test_those_who_end_first_by_their_steps_are_named_first():
    late = held("late", "s0", started_seconds=0.0, progress=progress(100))
    early = held("early", "s1", started_seconds=0.0, progress=progress(500))
    outcome = cycle(cluster(2, late, early, now_seconds=NOW), [execute("a", 1)])
    assert outcome.waits["a"].blocking == ("early", "late")


def test_every_type_of_job_is_counted_by_itself():
    jobs = [
        execute("e0", 1, sequence=0),
        *(replace(execute(f"d{n}", 0, sequence=n), type=JobType.DRIVER) for n in (1, 2, 3)),
        execute("e1", 1, sequence=4),
    ]
    snapshot = cluster(1, held("r", "s0", ends_in=HOUR), stopped="the disk is full")
    waits = cycle(snapshot, jobs).waits
    assert [waits[f"d{n}"].position for n in (1, 2, 3)] == [0, 1, 2]
    assert [waits[f"e{n}"].position for n in (0, 1)] == [0, 1]
    assert "2 driver job(s) queued before current job" in waits["d3"].reason
