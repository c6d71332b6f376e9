"""What the reconciler does with running jobs: preemption, limits, reservations, trouble."""

import logging
from concurrent.futures import Future
from dataclasses import replace

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from appliance.cluster.launcher import LauncherLost, LauncherTaken
from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import EventRecord, User
from appliance.core.cluster.requirements import PodDemand, Requirements
from appliance.core.errors import ClusterError, ConflictError, StaleWriterError
from appliance.core.ids import JobId, WorkflowId
from appliance.core.queries.system_event_filter import SystemEventFilter
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.mailbox import (
    Arrived,
    Happened,
    Holds,
    Releases,
    Reprioritised,
    Stops,
)
from appliance.scheduler.policy import Policy
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.waiting.wait_reasons import WaitReason
from tests.support.appliance_process import wait_for
from tests.support.management import make_model, new_job, opened_state
from tests.support.reconciling import FarLauncher, Harness, running_harness


def run(harness, name, **changes):
    return run_new(harness, new_job(name, **changes))


def run_new(harness, new):
    job = harness.submit(new)
    harness.until(lambda: harness.jobs.load(job).phase is Phase.INITIALIZING)
    return job


def test_an_urgent_job_stops_a_preemptible_one_which_is_queued_again(tmp_path):
    with running_harness(tmp_path, policy=Policy(allows_preemption=True)) as harness:
        victim = run(harness, "wsjob-v", requirements=Requirements(is_preemptible=True))
        urgent = harness.submit(new_job("wsjob-u", priority=99))
        harness.until(lambda: harness.jobs.load(urgent).phase is Phase.INITIALIZING)
        record = harness.jobs.load(victim)
        assert (record.phase, record.systems, record.num_starts) == (Phase.QUEUED, (), 1)
        harness.until(lambda: harness.is_queued(victim))
        assert harness.queue.explain(victim).blocking == (urgent,)
        (warning,) = harness.jobs.warnings(victim)
        assert warning.reason == "Preempted"
        assert f"preempted by {urgent}" in warning.message
        harness.jobs.end(urgent, Phase.SUCCEEDED, "")
        harness.until(lambda: harness.jobs.load(victim).phase is Phase.INITIALIZING)
        assert harness.jobs.load(victim).num_starts == 2
        assert harness.launcher.launched.count(victim) == 2


def test_without_permission_nobody_is_stopped(tmp_path):
    with running_harness(tmp_path) as harness:
        victim = run(harness, "wsjob-v", requirements=Requirements(is_preemptible=True))
        urgent = harness.submit(new_job("wsjob-u", priority=99))
        harness.until(lambda: harness.is_queued(urgent))
        assert harness.queue.explain(urgent).blocking == (victim,)


def test_a_held_job_waits_until_it_is_released_also_over_a_restart(tmp_path):
    with running_harness(tmp_path) as harness:
        running = run(harness, "wsjob-r")
        job = harness.submit(new_job("wsjob-w"))
        harness.until(lambda: harness.is_queued(job))
        harness.edits.hold(job, User(uid=1, name="ada"))
        assert harness.queue.explain(job).kind is WaitReason.HELD
        with pytest.raises(ConflictError, match="held by ada already"):
            harness.edits.hold(job, User(uid=1, name="ada"))
        with pytest.raises(ConflictError, match="is INITIALIZING; only what waits"):
            harness.edits.hold(running, User(uid=1, name="ada"))
        harness.jobs.end(running, Phase.SUCCEEDED, "")
        harness.until(lambda: harness.jobs.load(running).phase is Phase.SUCCEEDED)
        successor = Harness(harness.state, harness.model)
        harness.reconciler._is_closing.set()
        successor.reconciler.start()
        successor.until(lambda: successor.is_queued(job))
        assert successor.queue.explain(job).kind is WaitReason.HELD
        successor.edits.release(job)
        successor.until(lambda: successor.jobs.load(job).phase is Phase.INITIALIZING)
        assert [e.reason for e in successor.jobs.events(job)][2:4] == ["Held", "Released"]
        with pytest.raises(ConflictError, match="only what waits"):
            successor.mailbox.hold_back(job, "ada")
        successor.reconciler.close()


def compile_job(name, gib, *, limit_seconds=None):
    pods = (PodDemand(role="management", memory_bytes=gib << 30),) if gib else ()
    requirements = Requirements(pods=pods, limit_seconds=limit_seconds)
    return new_job(name, type=JobType.COMPILE, num_systems=0, requirements=requirements)


def is_admitted(harness, job):
    return not harness.jobs.load(job).holding.is_lookup


def test_a_compile_job_starts_at_once_and_waits_for_memory_only_when_it_asks(tmp_path):
    with running_harness(tmp_path, management_gib=100) as harness:
        first = harness.submit(compile_job("wsjob-1", 60))
        second = harness.submit(compile_job("wsjob-2", 60, limit_seconds=60))
        for job in (first, second):
            harness.until(lambda job=job: harness.jobs.load(job).phase is Phase.INITIALIZING)
            assert harness.jobs.load(job).holding.is_lookup
            harness.mailbox.post(Happened(job=job, event=machine.CoordinatorReady()))
        harness.jobs.request_compile(first)
        harness.until(lambda: is_admitted(harness, first))
        assert harness.jobs.load(first).holding.pods[0].role == "management"
        assert not harness.is_queued(first)
        harness.jobs.request_compile(second)
        # A cycle publishes the order only after the turn that queued the job.
        harness.until(lambda: harness.queue.find(second) is not None)
        assert harness.queue.explain(second).blocking == (first,)
        harness.edits.hold(second, User(uid=1, name="ada"))
        assert harness.queue.explain(second).kind is WaitReason.HELD
        harness.edits.release(second)
        assert harness.jobs.load(second).phase is Phase.RUNNING
        harness.jobs.end(first, Phase.CANCELLED, "")
        # Its limit counts from its admission, not from the look into the cache.
        harness.until(lambda: is_admitted(harness, second))
        harness.advance(59)
        harness.until(harness.mailbox.inbox.empty)
        assert harness.jobs.load(second).phase is Phase.RUNNING
        harness.advance(2)
        harness.until(lambda: harness.jobs.load(second).phase is Phase.FAILED)
        assert not harness.is_queued(second)
        assert "CompileAdmitted" in [each.reason for each in harness.jobs.events(second)]


def test_a_compile_job_that_waits_for_memory_is_cancelled_and_found_again(tmp_path):
    with running_harness(tmp_path, management_gib=100) as harness:
        first, second = (harness.submit(compile_job(f"wsjob-{n}", 60)) for n in range(2))
        for job in (first, second):
            harness.until(lambda job=job: harness.jobs.load(job).phase is Phase.INITIALIZING)
            harness.jobs.request_compile(job)
        harness.until(lambda: harness.is_queued(second) and is_admitted(harness, first))
        successor = Harness(harness.state, harness.model)
        harness.reconciler._is_closing.set()
        successor.launcher.known = harness.launcher.known
        successor.reconciler.start()
        assert not successor.is_queued(second)
        successor.jobs.request_compile(second)
        successor.until(lambda: successor.is_queued(second))
        successor.jobs.cancel(second, "by ada")
        successor.until(lambda: not successor.is_queued(second))
        successor.until(lambda: successor.jobs.load(second).phase is Phase.CANCELLED)
        successor.reconciler.close()


def test_a_job_ends_at_its_time_limit(tmp_path):
    with running_harness(tmp_path) as harness:
        job = run(harness, "wsjob-l", requirements=Requirements(limit_seconds=60))
        harness.advance(59)
        harness.until(harness.mailbox.inbox.empty)
        assert harness.jobs.load(job).phase is Phase.INITIALIZING
        harness.advance(2)
        harness.until(lambda: harness.jobs.load(job).phase is Phase.FAILED)
        assert "job time limit reached: it has run for" in harness.jobs.load(job).message


def test_a_workflow_keeps_its_systems_until_it_is_released(tmp_path):
    workflow = WorkflowId("wflow-1")
    with running_harness(tmp_path) as harness:
        harness.state.workflows.ensure(
            workflow, session="job-operator", user=User(), reserves_resources=True
        )
        harness.state.leases.grant(workflow, seconds=60)
        harness.mailbox.post(Holds(workflow=workflow))
        first = run(harness, "wsjob-1", workflow=workflow)
        harness.jobs.end(first, Phase.SUCCEEDED, "")
        harness.until(lambda: harness.jobs.load(first).phase is Phase.SUCCEEDED)
        other = harness.submit(new_job("wsjob-o", workflow=WorkflowId("wflow-2")))
        harness.until(lambda: harness.is_queued(other))
        second = run(harness, "wsjob-2", workflow=workflow)
        harness.jobs.end(second, Phase.SUCCEEDED, "")
        harness.until(lambda: harness.jobs.load(second).phase is Phase.SUCCEEDED)
        assert harness.is_queued(other)
        harness.state.workflows.release(workflow)
        harness.mailbox.post(Releases(workflow=workflow))
        harness.until(lambda: harness.jobs.load(other).phase is Phase.INITIALIZING)


def open_reserving(harness, name):
    workflow = WorkflowId(name)
    harness.state.workflows.ensure(
        workflow, session="job-operator", user=User(), reserves_resources=True
    )
    harness.state.leases.grant(workflow, seconds=60)
    harness.mailbox.post(Holds(workflow=workflow))
    return workflow


def test_a_workflow_that_reserves_keeps_systems_from_its_compile_on(tmp_path):
    with running_harness(tmp_path) as harness:
        workflow = open_reserving(harness, "wflow-1")
        compile_ = replace(compile_job("wsjob-c", 0), workflow=workflow)
        job = run_new(harness, compile_)
        harness.jobs.request_compile(job, num_systems=1, is_cached=True)
        harness.until(lambda: harness.model.facts.reservations)
        (kept,) = harness.model.facts.reservations
        assert (kept.workflow.id, kept.systems) == (workflow, ("systemf0",))
        other = harness.submit(new_job("wsjob-o", workflow=WorkflowId("wflow-2")))
        harness.until(lambda: harness.is_queued(other))
        mine = run(harness, "wsjob-e", workflow=workflow, num_systems=1)
        assert harness.jobs.load(mine).systems == ("systemf0",)
        assert "SystemsReserved" in [event.reason for event in harness.jobs.events(job)]


def test_a_compile_does_not_wait_for_the_systems_that_its_workflow_would_reserve(tmp_path):
    with running_harness(tmp_path) as harness:
        busy = run(harness, "wsjob-b", workflow=WorkflowId("wflow-2"))
        compile_ = replace(compile_job("wsjob-c", 0), workflow=open_reserving(harness, "wflow-1"))
        job = run_new(harness, compile_)
        harness.jobs.request_compile(job, num_systems=2)
        harness.until(lambda: is_admitted(harness, job))
        assert harness.model.facts.reservations == ()
        harness.jobs.end(busy, Phase.SUCCEEDED, "")
        harness.until(lambda: harness.jobs.load(busy).phase is Phase.SUCCEEDED)
        harness.jobs.request_compile(job, num_systems=2)
        harness.until(lambda: harness.model.facts.reservations)


def test_a_new_management_finds_reservations_and_queue_again(tmp_path):
    workflow = WorkflowId("wflow-1")
    with opened_state(tmp_path) as state:
        model = make_model(state, num_systems=2)
        state.workflows.ensure(
            workflow, session="job-operator", user=User(), reserves_resources=True
        )
        state.leases.grant(workflow, seconds=60)
        harness = Harness(state, model)
        harness.reconciler.start()
        harness.mailbox.post(Holds(workflow=workflow))
        run(harness, "wsjob-1", workflow=workflow)
        waiting = harness.submit(new_job("wsjob-w", workflow=WorkflowId("wflow-2")))
        harness.until(lambda: harness.is_queued(waiting))
        # `harness` is left as a killed management would leave it.
        successor = Harness(state, model)
        successor.launcher.known = harness.launcher.known
        successor.reconciler.start()
        successor.until(lambda: successor.is_queued(waiting))
        (grant,) = successor.mailbox.published.snapshot.grants
        assert grant.systems == ("systemf0", "systemf1")
        (kept,) = model.facts.reservations
        assert kept.systems == grant.systems
        assert successor.launcher.launched == []
        harness.reconciler._is_closing.set()
        successor.reconciler.close()


def test_what_cannot_be_taken_in_leaves_other_jobs_alone(tmp_path, caplog):
    with running_harness(tmp_path) as harness:
        good = run(harness, "wsjob-g", num_systems=1)
        bad = run(harness, "wsjob-b", num_systems=1)
        with harness.state.database.transaction() as rows:
            rows.connection().exec_driver_sql(f"UPDATE jobs SET phase='RUNNING' WHERE id='{bad}'")
        harness.mailbox.post(Happened(job=bad, event=machine.CoordinatorReady()))
        harness.mailbox.post(Happened(job=good, event=machine.CoordinatorReady()))
        harness.until(lambda: harness.jobs.load(good).phase is Phase.RUNNING)
        assert "was not taken in" in caplog.text


def test_a_superseded_management_writes_nothing_more(tmp_path):
    with opened_state(tmp_path) as state:
        model = make_model(state, num_systems=2)
        state.database.claim()
        ended = []
        harness = Harness(state, model, on_lost=lambda: ended.append(1))
        harness.reconciler.start()
        job = run(harness, "wsjob-1")
        with opened_state(tmp_path) as other:
            other.database.claim()
            harness.mailbox.post(Happened(job=job, event=machine.CoordinatorReady()))
            wait_for(lambda: ended)
            assert other.jobs.load(job).phase is Phase.INITIALIZING
            with pytest.raises(StaleWriterError, match="Another management"):
                state.jobs.set_message(state.jobs.load(job), "too late")


def test_a_management_whose_pods_another_holds_ends(tmp_path):
    with opened_state(tmp_path) as state:
        ended = []
        harness = Harness(state, make_model(state, num_systems=2), on_lost=lambda: ended.append(1))
        harness.reconciler.start()
        harness.launcher.exits.put(LauncherTaken())
        wait_for(lambda: ended)


def test_nothing_is_lost_of_more_than_one_turn_takes(tmp_path):
    with opened_state(tmp_path) as state:
        harness = Harness(state, make_model(state, num_systems=2))
        asked = PendingJob(
            id=JobId("wsjob-q"), type=JobType.EXECUTE, sequence=1, priority=299, num_systems=1
        )
        answers = [harness.mailbox.would_start(asked) for _ in range(1100)]
        harness.reconciler.start()
        assert all(answer.result(timeout=120) for answer in answers)
        harness.reconciler.close()


def test_a_driver_brought_back_after_its_launcher_was_lost_is_not_stopped_again(tmp_path):
    with opened_state(tmp_path) as state:
        harness = Harness(
            state, make_model(state, num_systems=2), pod_lost=lambda job, end: "again"
        )
        harness.reconciler.start()
        driver = harness.submit(new_job("wsjob-d", type=JobType.DRIVER, num_systems=0))
        harness.until(lambda: harness.jobs.load(driver).phase is Phase.RUNNING)
        harness.launcher.exits.put(LauncherLost(jobs=(driver,), reason="the node is gone"))
        harness.until(lambda: harness.launcher.launched.count(driver) == 2)
        other = run(harness, "wsjob-o", num_systems=1)
        harness.jobs.end(other, Phase.SUCCEEDED, "")
        harness.until(lambda: harness.jobs.load(other).phase.is_terminal)  # so every exit was taken
        assert not harness.jobs.load(driver).phase.is_terminal
        harness.reconciler.close()


def test_one_of_the_jobs_of_a_lost_launcher_that_cannot_be_lost_leaves_the_others(tmp_path):
    with running_harness(tmp_path) as harness:
        jobs = [run(harness, f"wsjob-{name}", num_systems=1) for name in "bg"]
        with harness.state.database.transaction() as rows:
            rows.connection().exec_driver_sql(
                f"UPDATE jobs SET phase='FAILED', ended_at=created_at WHERE id='{jobs[0]}'"
            )
        harness.launcher.exits.put(LauncherLost(jobs=tuple(jobs), reason="it ended"))
        harness.until(lambda: harness.jobs.load(jobs[1]).phase is Phase.FAILED)


def test_a_changed_priority_stays_when_a_job_is_queued_again(tmp_path):
    with running_harness(tmp_path, policy=Policy(allows_preemption=True)) as harness:
        victim = run(harness, "wsjob-v", requirements=Requirements(is_preemptible=True))
        harness.state.jobs.set_priority(harness.state.jobs.load(victim), 250)
        harness.mailbox.post(Reprioritised(job=victim, priority=250))
        urgent = harness.submit(new_job("wsjob-u", priority=99))
        harness.until(lambda: harness.jobs.load(urgent).phase is Phase.INITIALIZING)
        rival = harness.submit(new_job("wsjob-r", priority=270))
        harness.until(lambda: harness.is_queued(victim) and harness.is_queued(rival))
        harness.jobs.end(urgent, Phase.SUCCEEDED, "")
        harness.until(lambda: harness.jobs.load(victim).phase is Phase.INITIALIZING)
        assert rival not in harness.launcher.launched


def arrive(harness, name, keep):
    committed = Future()
    harness.mailbox.post(Arrived(job=JobId(name), store=keep, committed=committed))
    return committed


def test_a_job_that_cannot_be_kept_is_refused_and_others_of_its_turn_are_taken(tmp_path):
    def keep_with_a_strangers_event():
        record = harness.state.jobs.create(new_job("wsjob-b"))
        harness.state.jobs.add_event(
            EventRecord(
                job=JobId("wsjob-no"), at=record.created_at, reason="R", message="m", subject="s"
            )
        )
        return record

    def fail():
        raise OSError("No space left on device")

    with running_harness(tmp_path) as harness:
        refused = arrive(harness, "wsjob-b", keep_with_a_strangers_event)
        failed = arrive(harness, "wsjob-f", fail)
        taken = arrive(harness, "wsjob-g", lambda: harness.state.jobs.create(new_job("wsjob-g")))
        assert taken.result(timeout=120).phase is Phase.QUEUED
        assert isinstance(refused.exception(timeout=120), IntegrityError)
        assert isinstance(failed.exception(timeout=120), OSError)
        harness.until(lambda: harness.jobs.load(taken.result().id).phase is Phase.INITIALIZING)
        assert harness.jobs.find(JobId("wsjob-b")) is None
        assert harness.launcher.launched == ["wsjob-g"]


def test_a_coordinator_that_registers_opens_its_job_with_its_address(tmp_path):
    with running_harness(tmp_path) as harness:
        job, committed = run(harness, "wsjob-1"), Future()
        harness.jobs.coordinator_registered(job, "localhost:7", committed)
        committed.result(timeout=120)
        record = harness.jobs.load(job)
        assert (record.phase, record.service_address) == (Phase.RUNNING, "localhost:7")


@pytest.mark.parametrize(
    ("pragma", "complaint", "takes_less"),
    [("query_only = ON", "readonly", False), ("max_page_count = 1", "full", True)],
    ids=["read-only", "full"],
)
def test_a_management_whose_database_refuses_a_turn_begins_anew_once_it_writes_again(
    tmp_path, caplog, pragma, complaint, takes_less
):
    def keep_much():
        harness.mailbox.post(
            Happened(job=job, event=machine.CoordinatorReady())
        )  # so this is of the same turn
        return state.jobs.create(new_job("wsjob-2", client_workdir="/w" * 50_000))

    with opened_state(tmp_path) as state:
        ended = []
        harness = Harness(
            state, make_model(state, num_systems=2), on_refused=lambda: ended.append(1)
        )
        harness.reconciler.start()
        job = run(harness, "wsjob-1", num_systems=1)
        engine = state.database.engine

        def harm(connection):
            connection.exec_driver_sql(f"PRAGMA {pragma}")

        event.listen(engine, "begin", harm)
        answer = arrive(harness, "wsjob-2", keep_much)
        wait_for(lambda: "The database has refused" in caplog.text)
        assert state.database.takes_writes() == takes_less  # what fits into pages that are there
        assert takes_less or not ended
        event.remove(engine, "begin", harm)
        event.listen(engine, "checkout", lambda at, *_: at.execute("PRAGMA query_only = OFF"))
        wait_for(lambda: ended)
        with pytest.raises(ClusterError, match=f"can keep nothing now: .*{complaint}"):
            answer.result(timeout=60)
        (line,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
        assert complaint in line.error
        assert state.jobs.load(job).phase is Phase.INITIALIZING
        with opened_state(tmp_path) as kept:
            successor = Harness(kept, make_model(kept, num_systems=2))
            successor.launcher.known = harness.launcher.known
            successor.reconciler.start()
            successor.mailbox.post(Happened(job=job, event=machine.CoordinatorReady()))
            wait_for(lambda: successor.jobs.load(job).phase is Phase.RUNNING)
            successor.reconciler.close()


def test_a_launch_that_waits_delays_its_own_job_alone(tmp_path):
    launcher = FarLauncher("wsjob-s")
    clock = SystemClock()  # threads that wait for nodes are no part of the reconciler's turns
    with running_harness(tmp_path, num_systems=4, launcher=launcher, clock=clock) as harness:
        silent = harness.submit(new_job("wsjob-s"))
        assert launcher.orders.get(timeout=120) == ("launch", silent)
        harness.jobs.end(silent, Phase.CANCELLED, "changed my mind")  # while it is launched
        other = harness.submit(new_job("wsjob-o"))
        wait_for(lambda: harness.jobs.load(other).phase is Phase.INITIALIZING)
        harness.jobs.end(other, Phase.SUCCEEDED, "")
        wait_for(lambda: harness.jobs.load(other).phase is Phase.SUCCEEDED)
        assert harness.jobs.load(silent).phase is Phase.SCHEDULED
        launcher.answers.set()
        wait_for(lambda: harness.jobs.load(silent).phase is Phase.CANCELLED)
        wait_for(lambda: launcher.orders.qsize() == 5)
        orders = [launcher.orders.get() for _ in range(5)]
        assert [kind for kind, job in orders if job == other] == ["launch", "stop", "forget"]
        assert [kind for kind, job in orders if job == silent] == ["stop", "forget"]


def test_admissions_stop_for_a_reason_and_go_on_by_themselves(tmp_path):
    with running_harness(tmp_path) as harness:
        running = run(harness, "wsjob-r", num_systems=1)
        harness.mailbox.post(Stops(reason="the disk of /data has 1 MiB free"))
        waiting = harness.submit(new_job("wsjob-w", num_systems=1))
        harness.until(lambda: harness.is_queued(waiting))
        assert harness.queue.explain(waiting).kind is WaitReason.STOPPED
        assert harness.queue.page().stopped == "the disk of /data has 1 MiB free"
        assert harness.jobs.load(running).phase is Phase.INITIALIZING
        harness.mailbox.post(Stops(reason=""))
        harness.until(lambda: harness.jobs.load(waiting).phase is Phase.INITIALIZING)
        events = harness.state.system_events.list(SystemEventFilter())
        assert [(each.details["state"], each.note) for each in events] == [
            ("admissions-stopped", "the disk of /data has 1 MiB free"),
            ("admissions-resumed", "again possible: the disk of /data has 1 MiB free"),
        ]
        assert harness.queue.page().stopped == ""
