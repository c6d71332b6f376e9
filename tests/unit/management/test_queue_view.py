"""Positions, expected starts and reasons, as the last cycle published them."""

import re
from dataclasses import replace

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import User
from appliance.core.cluster.requirements import Requirements
from appliance.core.cluster.run import RunSession
from appliance.core.cluster.sessions import SessionSpec
from appliance.core.errors import ConflictError, NotFoundError
from appliance.core.ids import JobId
from appliance.management.jobs.queue_view import StartQuestion
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.mailbox import Happened
from appliance.scheduler.waiting.wait_reasons import WaitReason
from tests.support.management import new_job
from tests.support.reconciling import running_harness

ADA = User(uid=1000, gid=100, name="ada")
HOUR = Requirements(limit_seconds=3600.0)


@pytest.fixture
def harness(tmp_path):
    with running_harness(tmp_path, num_systems=2) as harness:
        yield harness


def run(harness, name, **changes):
    job = harness.submit(new_job(name, **changes))
    harness.until(lambda: harness.jobs.load(job).phase is Phase.INITIALIZING)
    return job


def queue_up(harness, name, **changes):
    job = harness.submit(new_job(name, **changes))
    harness.until(lambda: harness.is_queued(job))
    return job


def test_waiting_jobs_have_position_reason_blocking_jobs_and_expected_start(harness):
    running = run(harness, "wsjob-r", requirements=HOUR)
    first = queue_up(harness, "wsjob-1", requirements=HOUR)
    second = queue_up(harness, "wsjob-2")
    page = harness.queue.page()
    assert [(entry.job, entry.position) for entry in page.entries] == [(first, 1), (second, 2)]
    assert page.total == 2
    head = harness.queue.explain(first)
    assert (head.kind, head.blocking) == (WaitReason.RESOURCES, (running,))
    assert head.basis == f"end of {running}, by time limit"
    assert head.is_promised
    left = head.expected_start - harness.state.clock.now()
    assert 3500 < left.total_seconds() <= 3600
    assert harness.queue.explain(second).behind == (first,)
    assert [entry.job for entry in harness.queue.page(offset=1, limit=5).entries] == [second]


def test_a_start_follows_the_steps_of_the_job_before_it(harness):
    running = run(harness, "wsjob-r")
    waiting = queue_up(harness, "wsjob-s", num_systems=2)
    by_default = f"end of {running}, by default: no time limit, and no earlier run of its user"
    assert harness.queue.explain(waiting).basis == by_default
    steps = RunSession(
        number=1,
        is_training=True,
        num_steps=600,
        completed_steps=169,
        step_seconds=0.4,
        started_at=harness.state.clock.now(),
    )
    report = {"phase": "", "message": "", "pods": [], "events": []}
    harness.jobs.reported(running, **report, session=steps)
    harness.until(
        lambda: "by its own steps: step 169 of 600" in harness.queue.explain(waiting).basis
    )
    left = harness.queue.explain(waiting).expected_start - harness.state.clock.now()
    assert 150 < left.total_seconds() < 179
    over = replace(steps, completed_steps=600, ended_at=harness.state.clock.now())
    harness.jobs.reported(running, **report, session=over)
    between = "by its own sessions: 1 complete, and 5 s from the last to its end"
    harness.until(lambda: between in harness.queue.explain(waiting).basis)
    left = harness.queue.explain(waiting).expected_start - harness.state.clock.now()
    assert 0 < left.total_seconds() <= 6


def test_everybody_who_asks_in_one_second_gets_one_answer_and_none_is_in_the_past(harness):
    running = run(harness, "wsjob-r")
    waiting = queue_up(harness, "wsjob-s", num_systems=2)
    steps = RunSession(
        number=1,
        is_training=True,
        num_steps=10,
        completed_steps=10,
        step_seconds=0.4,
        started_at=harness.state.clock.now(),
    )
    report = {"phase": "", "message": "", "pods": [], "events": []}
    harness.jobs.reported(running, **report, session=steps)
    harness.until(lambda: "its own steps" in harness.queue.explain(waiting).basis)
    harness.until(harness.mailbox.inbox.empty)
    for waited in (0.0, 4.0, 60.0, 3600.0):
        harness.state.clock.advance(waited)
        entry, wait = harness.queue.explain(waiting), harness.jobs.wait_of(waiting)
        assert harness.queue.page().entries == (entry,)
        assert entry.expected_start.timestamp() == wait.expected_start.at_seconds
        assert entry.expected_start > harness.state.clock.now()
        assert entry.basis in wait.reason
        assert "expected" not in entry.reason


def test_a_session_that_does_not_exist_has_no_queue(harness):
    with pytest.raises(NotFoundError, match="no session 'x'"):
        harness.queue.page(session="x")


def test_a_job_that_does_not_wait_is_not_explained(harness):
    running = run(harness, "wsjob-r")
    with pytest.raises(ConflictError, match="does not wait: it is INITIALIZING"):
        harness.queue.explain(running)
    with pytest.raises(NotFoundError):
        harness.queue.explain(JobId("wsjob-none"))


def test_a_request_is_tried_without_queueing_it(harness):
    now = harness.queue.would_start(StartQuestion(num_systems=1, user=ADA))
    assert (now.starts_now, now.systems) == (True, ("systemf0",))
    too_many = harness.queue.would_start(StartQuestion(num_systems=3, user=ADA))
    assert "requested 3 system[type:CS2] but 2 exists" in too_many.refusal
    running = run(harness, "wsjob-r", requirements=HOUR)
    later = harness.queue.would_start(StartQuestion(num_systems=1, user=ADA))
    assert not later.starts_now
    assert later.entry.blocking == (running,)
    assert harness.queue.page().total == 0
    with pytest.raises(NotFoundError, match="no session 'x'"):
        harness.queue.would_start(StartQuestion(num_systems=1, user=ADA, session="x"))


def test_the_end_of_a_job_is_published_with_nothing_in_the_queue(harness):
    running = run(harness, "wsjob-r", requirements=HOUR)
    harness.until(lambda: len(harness.mailbox.published.snapshot.grants) == 1)
    harness.jobs.end(running, Phase.SUCCEEDED, "")
    harness.mailbox.post(Happened(job=running, event=machine.Stopped()))
    harness.until(lambda: harness.mailbox.published.snapshot.grants == ())


def test_a_changed_quota_is_seen_at_once(harness):
    harness.sessions.create("team", SessionSpec(max_executes=0))
    job = queue_up(harness, "wsjob-t", session="team")
    assert harness.queue.explain(job).kind is WaitReason.QUOTA
    harness.sessions.update("team", {"max_executes": 1})
    harness.until(lambda: harness.jobs.load(job).phase is Phase.INITIALIZING)


@pytest.mark.parametrize("is_new", [True, False])
def test_how_long_a_job_went_on_after_its_session_is_learned(tmp_path, is_new):
    program = Requirements(program="abc")
    report = {"phase": "", "message": "", "pods": [], "events": []}

    def session(harness, job, step, ended_at=None):
        told = RunSession(
            number=1,
            is_training=True,
            num_steps=10,
            completed_steps=step,
            step_seconds=2.0,
            started_at=harness.state.clock.now(),
            ended_at=ended_at,
        )
        harness.jobs.reported(job, **report, session=told)

    def learn(harness):
        job = run(harness, "wsjob-p", requirements=program)
        session(harness, job, 10, harness.state.clock.now())
        harness.advance(40.0)
        harness.jobs.end(job, Phase.SUCCEEDED, "")
        harness.mailbox.post(Happened(job=job, event=machine.Stopped()))
        harness.until(lambda: harness.jobs.load(job).phase is Phase.SUCCEEDED)

    def ask(harness):
        running = run(harness, "wsjob-q", requirements=program)
        waiting = queue_up(harness, "wsjob-s")
        session(harness, running, 5)
        harness.until(lambda: "by its own steps" in harness.queue.explain(waiting).basis)
        found = harness.queue.explain(waiting)
        assert re.search(r"and (40|41|42)(\.\d)? s until it ends", found.basis), found.basis

    with running_harness(tmp_path, num_systems=2) as harness:
        learn(harness)
        if not is_new:
            ask(harness)
    if is_new:
        with running_harness(tmp_path, num_systems=2) as harness:
            ask(harness)


def test_earlier_runs_of_a_program_are_known_to_a_new_management(tmp_path):
    program = Requirements(program="abc")
    with running_harness(tmp_path, num_systems=2) as harness:
        job = run(harness, "wsjob-p", requirements=program)
        harness.jobs.end(job, Phase.SUCCEEDED, "")
        harness.mailbox.post(Happened(job=job, event=machine.Stopped()))
        harness.until(lambda: harness.jobs.load(job).phase is Phase.SUCCEEDED)
    with running_harness(tmp_path, num_systems=2) as harness:
        running = run(harness, "wsjob-q", requirements=program)
        waiting = queue_up(harness, "wsjob-s")
        assert (
            harness.queue.explain(waiting).basis
            == f"end of {running}, by earlier runs of the program"
        )
