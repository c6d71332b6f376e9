"""Expected starts rest on the running job's own steps, then on its like, then on limits."""

from dataclasses import replace
from itertools import pairwise

import pytest

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.run import Aftermath, CompletedSessions, RunProgress
from appliance.core.ids import WorkflowId
from appliance.core.quantities import duration
from appliance.scheduler.cycle import run_cycle
from appliance.scheduler.queue import JobQueue
from appliance.scheduler.run_time import Basis, Estimate, RunHistory
from appliance.scheduler.snapshot import WorkflowReservation
from tests.support.scheduling import HOUR, cluster, cycle, execute, held

NOW = 1000.0
TWO_SESSIONS = CompletedSessions(
    count=2, longest_seconds=172.0, last_end_seconds=NOW, ends_seconds=(NOW - 100, NOW)
)
HISTORY = Estimate(expected_seconds=HOUR, bound_seconds=1.5 * HOUR, basis=Basis.PROGRAM)
KNOWN = replace(HISTORY, aftermath=Aftermath(rests_seconds=(100.0, 70.0, 7.0), tail_seconds=7.0))
"""Of a program that has run three sessions each time."""
NOTHING_KNOWN = Estimate(expected_seconds=HOUR, bound_seconds=HOUR, basis=Basis.DEFAULT)
UNTIMED = RunProgress(session=3, num_steps=600, completed_steps=0, step_seconds=0.0, at_seconds=NOW)


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
    assert start.at_seconds == pytest.approx(NOW + 431 * 0.4 + 5)
    assert start.basis == (
        "end of r, by its own steps: step 169 of 600, 2 min 52 s to go, and 5 s until it ends"
    )
    assert "expected to start in 2 min 57 s (end of r, by its own steps" in wait.reason
    assert "expected" not in wait.status
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
    assert start.at_seconds == pytest.approx(NOW + 599 * 36.0 + 5)
    assert "step 1 of 600, 5 h 59 min to go" in start.basis


@pytest.mark.parametrize(
    ("estimate", "fields", "rest", "basis"),
    [
        pytest.param(
            NOTHING_KNOWN,
            {"completed": TWO_SESSIONS},
            5,
            "by its own sessions: 2 complete, and 5 s from the last to its end; "
            "it has no time limit",
            id="the client ends as clients usually do",
        ),
        pytest.param(
            replace(NOTHING_KNOWN, basis=Basis.USER, aftermath=Aftermath(tail_seconds=9.0)),
            {"completed": TWO_SESSIONS},
            9,
            "by its own sessions: 2 complete, and 9 s from the last to its end; "
            "it has no time limit",
            id="the client ends as others of its user did",
        ),
        pytest.param(
            KNOWN,
            {"completed": TWO_SESSIONS},
            70,
            "by its own sessions: 2 complete, and 1 min 10 s from the last to its end; "
            "it has no time limit",
            id="one more session follows, as in earlier runs",
        ),
        pytest.param(
            KNOWN,
            {"completed": replace(TWO_SESSIONS, count=3)},
            7,
            "by its own sessions: 3 complete, and 7 s from the last to its end; "
            "it has no time limit",
            id="the last session of earlier runs is over",
        ),
        pytest.param(
            NOTHING_KNOWN,
            {"completed": TWO_SESSIONS, "progress": UNTIMED},
            172 + 5,
            "by its own sessions: 2 complete, and 2 min 57 s from the last to its end; "
            "it has no time limit",
            id="one more session has begun",
        ),
        pytest.param(
            KNOWN,
            {"completed": TWO_SESSIONS, "progress": UNTIMED},
            70,
            "by its own sessions: 2 complete, and 1 min 10 s from the last to its end; "
            "it has no time limit",
            id="one more session has begun, as in earlier runs",
        ),
        pytest.param(
            NOTHING_KNOWN,
            {
                "completed": TWO_SESSIONS,
                "progress": RunProgress(
                    session=3, num_steps=600, completed_steps=600, step_seconds=0.4, at_seconds=NOW
                ),
            },
            5,
            "by its own steps: step 600 of 600, and 5 s until it ends",
            id="all steps of the present session are complete",
        ),
    ],
)
def test_after_a_session_what_remains_is_what_remained_before(estimate, fields, rest, basis):
    grant = held("r", "s0", started_seconds=NOW - 300, estimate=estimate, **fields)
    start = start_behind(grant).expected_start
    assert (start.at_seconds - NOW, start.basis) == (rest, f"end of r, {basis}")
    assert not start.is_promised


def test_a_program_that_is_known_ends_as_long_after_its_steps_as_before():
    grant = held("r", "s0", started_seconds=NOW, estimate=KNOWN, progress=progress(169))
    start = start_behind(grant).expected_start
    assert start.at_seconds == pytest.approx(NOW + 431 * 0.4 + 100)
    assert start.basis.endswith("step 169 of 600, 2 min 52 s to go, and 1 min 40 s until it ends")


def test_a_limit_ends_a_job_that_goes_on_after_its_session():
    grant = replace(held("r", "s0", ends_in=NOW + 3), completed=TWO_SESSIONS)
    start = start_behind(grant).expected_start
    assert (start.at_seconds, start.basis) == (NOW + 3, "end of r, by time limit")
    later = replace(held("r", "s0", ends_in=NOW + HOUR), completed=TWO_SESSIONS)
    start = start_behind(later).expected_start
    assert start.at_seconds == NOW + 5
    assert start.basis.endswith("2 complete, and 5 s from the last to its end")


def test_a_limit_ends_a_job_before_its_last_step():
    grant = replace(held("r", "s0", ends_in=NOW + 60), progress=progress(169))
    start = start_behind(grant).expected_start
    assert (start.at_seconds, start.basis) == (NOW + 60, "end of r, by time limit")
    assert start.is_promised


OVERDUE = {
    "its last step": held("r", "s0", started_seconds=0.0, progress=progress(600, at=NOW)),
    "steps that nobody reports": held("r", "s0", started_seconds=0.0, progress=progress(599)),
    "its sessions": held("r", "s0", started_seconds=0.0, completed=TWO_SESSIONS),
    "a session that has begun": held(
        "r", "s0", started_seconds=0.0, completed=TWO_SESSIONS, progress=UNTIMED
    ),
    "earlier runs": held("r", "s0", started_seconds=NOW - 3000, estimate=HISTORY),
    "the default": held("r", "s0", started_seconds=NOW - 86_000),
    "its limit": held("r", "s0", ends_in=NOW + 10),
    "nothing": held("r", "s0"),
}
"""A job that runs, by what its end is expected of."""


@pytest.mark.parametrize("name", OVERDUE)
@pytest.mark.parametrize("waited", [0.0, 9.5, 200.0, 7 * HOUR])
def test_no_start_is_expected_in_the_past_however_long_a_job_outlives_its_estimate(name, waited):
    snapshot = cluster(1, OVERDUE[name], now_seconds=NOW)
    jobs = [execute(f"j{number}", 1, sequence=number) for number in range(110)]
    now, grant = NOW + waited, OVERDUE[name]
    waits = cycle(snapshot, jobs).waits.at(now, lambda _: (grant.progress, grant.completed))
    starts = [wait.expected_start.at_seconds for wait in waits.values()]
    assert min(starts) >= now
    assert starts[0] == min(starts)
    if "step" in name or "session" in name:
        found = waits["j0"].expected_start
        since = NOW + 0.4 if name.startswith("steps") else NOW
        rest = duration(max(round(found.at_seconds - since), 1))
        assert f"and {rest} until it ends" in found.basis or (
            f"and {rest} from the last to its end" in found.basis
        )


@pytest.mark.parametrize("name", OVERDUE)
@pytest.mark.parametrize("waited", [9.5, 200.0, 7 * HOUR])
def test_a_later_question_is_answered_as_a_cycle_of_that_time_would(name, waited):
    grant, now, jobs = OVERDUE[name], NOW + waited, [execute("j", 1)]
    then = cycle(cluster(1, grant, now_seconds=now), jobs).waits["j"].expected_start
    waits = cycle(cluster(1, grant, now_seconds=NOW), jobs).waits
    asked = waits.at(now, lambda _: (grant.progress, grant.completed))["j"].expected_start
    assert asked.at_seconds == pytest.approx(then.at_seconds)


def test_times_are_those_of_the_question_not_of_the_last_cycle():
    grant = held("r", "s0", started_seconds=NOW - 80, progress=progress(169))
    waits = cycle(cluster(1, grant, now_seconds=NOW), [execute("a", 1)]).waits
    latest = {"r": progress(400, at=NOW + 100)}
    wait = waits.at(NOW + 110, lambda job: (latest.get(job), None))["a"]
    assert wait.expected_start.at_seconds == pytest.approx(NOW + 100 + 200 * 0.4 + 5)
    assert "step 400 of 600, 1 min 10 s to go" in wait.expected_start.basis
    assert "expected to start in 1 min 15 s" in wait.reason
    assert waits["a"] == waits.at(0.0, lambda _: (grant.progress, None))["a"]


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
    assert waits["one"].expected_start.at_seconds == pytest.approx(NOW + 431 * 0.4 + 5)
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


@pytest.mark.parametrize(
    ("program", "limit", "user", "seconds"),
    [
        pytest.param("sweep", None, "ada", 80 + 431 * 0.4 + 5, id="a run of the program runs"),
        pytest.param("sweep", 100.0, "ada", 100.0, id="its limit ends it before"),
        pytest.param("other", None, "ada", 24 * HOUR, id="another program"),
        pytest.param("sweep", None, "bob", 24 * HOUR, id="of another user"),
        pytest.param("", None, "ada", 24 * HOUR, id="nobody knows its program"),
    ],
)
def test_a_run_is_expected_to_take_as_long_as_one_of_its_program_that_runs(
    program, limit, user, seconds
):
    running = held("r", "s0", user="ada", started_seconds=NOW - 80, progress=progress(169))
    running = replace(running, program="sweep")
    first = execute("first", 1, program=program, user=user, limit_seconds=limit)
    waits = cycle(
        cluster(1, running, now_seconds=NOW), [first, execute("next", 1, sequence=1, user=user)]
    ).waits
    assert waits["first"].run_seconds == pytest.approx(seconds)
    if limit is None:
        wait = waits["next"].expected_start.at_seconds - waits["first"].expected_start.at_seconds
        assert wait == pytest.approx(seconds)


def test_ended_runs_of_a_program_tell_more_than_one_that_runs():
    history = RunHistory()
    history.observe("ada", "sweep", JobType.EXECUTE, 60.0)
    running = held("r", "s0", user="ada", started_seconds=NOW - 80, progress=progress(169))
    queue = JobQueue([execute("first", 1, program="sweep", user="ada")], history=history)
    outcome = run_cycle(cluster(1, replace(running, program="sweep"), now_seconds=NOW), queue)
    assert outcome.waits["first"].run_seconds == 60.0


def test_who_waits_behind_waiting_jobs_expects_that_some_of_them_are_cut_short():
    history = RunHistory()
    history.observe("ada", "sweep", JobType.EXECUTE, 100.0)
    for _ in range(8):
        history.observe_cut("ada", "sweep", JobType.EXECUTE, 0.0)
    sweep = [
        execute(f"job{number:03}", 1, sequence=number, program="sweep", user="ada")
        for number in range(103)
    ]
    running = held("r", "s0", started_seconds=NOW - 10, estimate=HISTORY)
    waits = run_cycle(cluster(1, running, now_seconds=NOW), JobQueue(sweep, history=history)).waits
    share = history.spent_share(JobType.EXECUTE)
    starts = [waits[job.id].expected_start.at_seconds - NOW for job in sweep]
    assert share == pytest.approx(9 / 17)
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps[:99] == [pytest.approx(100.0 * share)] * 99
    assert gaps[100:] == [pytest.approx(100.0 * share)] * 2  # beyond those that are planned singly
    assert waits["job000"].run_seconds == 100.0
