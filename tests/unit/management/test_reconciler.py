"""What the reconciler does with running jobs: preemption, limits, reservations, trouble."""

import pytest

from appliance.core.errors import StaleWriterError
from appliance.core.ids import WorkflowId
from appliance.core.jobs import Phase
from appliance.core.records import User
from appliance.core.requirements import Requirements
from appliance.management import job_machine as machine
from appliance.scheduler.policy import Policy
from tests.support.appliance_process import wait_for
from tests.support.management import make_model, new_job, opened_state
from tests.support.reconciling import Desk, running_desk


def run(desk, name, **changes):
    job = desk.submit(new_job(name, **changes))
    wait_for(lambda: desk.jobs.load(job).phase is Phase.INITIALIZING)
    return job


def test_an_urgent_job_stops_a_preemptible_one_which_is_queued_again(tmp_path):
    with running_desk(tmp_path, policy=Policy(allows_preemption=True)) as desk:
        victim = run(desk, "wsjob-v", requirements=Requirements(is_preemptible=True))
        urgent = desk.submit(new_job("wsjob-u", priority=99))
        wait_for(lambda: desk.jobs.load(urgent).phase is Phase.INITIALIZING)
        record = desk.jobs.load(victim)
        assert (record.phase, record.systems, record.num_starts) == (Phase.QUEUED, (), 1)
        wait_for(lambda: desk.is_queued(victim))
        assert desk.queue.explain(victim).blocking == (urgent,)
        (warning,) = desk.jobs.warnings(victim)
        assert warning.reason == "Preempted"
        assert f"preempted by {urgent}" in warning.message
        desk.jobs.end(urgent, Phase.SUCCEEDED, "")
        wait_for(lambda: desk.jobs.load(victim).phase is Phase.INITIALIZING)
        assert desk.jobs.load(victim).num_starts == 2
        assert desk.launcher.launched.count(victim) == 2


def test_without_permission_nobody_is_stopped(tmp_path):
    with running_desk(tmp_path) as desk:
        victim = run(desk, "wsjob-v", requirements=Requirements(is_preemptible=True))
        urgent = desk.submit(new_job("wsjob-u", priority=99))
        wait_for(lambda: desk.is_queued(urgent))
        assert desk.queue.explain(urgent).blocking == (victim,)


def test_a_job_ends_at_its_time_limit(tmp_path):
    with running_desk(tmp_path) as desk:
        job = run(desk, "wsjob-l", requirements=Requirements(limit_seconds=0.2))
        wait_for(lambda: desk.jobs.load(job).phase is Phase.FAILED)
        assert desk.jobs.load(job).message == "job time limit reached: it has run for 0.2 seconds"


def test_a_workflow_keeps_its_systems_until_it_is_released(tmp_path):
    workflow = WorkflowId("wflow-1")
    with running_desk(tmp_path) as desk:
        desk.state.workflows.ensure(
            workflow, session="job-operator", user=User(), reserves_resources=True
        )
        desk.state.leases.grant(workflow, seconds=60)
        desk.reconciler.hold(workflow)
        first = run(desk, "wsjob-1", workflow=workflow)
        desk.jobs.end(first, Phase.SUCCEEDED, "")
        wait_for(lambda: desk.jobs.load(first).phase is Phase.SUCCEEDED)
        other = desk.submit(new_job("wsjob-o", workflow=WorkflowId("wflow-2")))
        wait_for(lambda: desk.is_queued(other))
        second = run(desk, "wsjob-2", workflow=workflow)
        desk.jobs.end(second, Phase.SUCCEEDED, "")
        wait_for(lambda: desk.jobs.load(second).phase is Phase.SUCCEEDED)
        assert desk.is_queued(other)
        desk.state.workflows.release(workflow)
        desk.reconciler.release(workflow)
        wait_for(lambda: desk.jobs.load(other).phase is Phase.INITIALIZING)


def test_a_new_management_finds_reservations_and_queue_again(tmp_path):
    workflow = WorkflowId("wflow-1")
    with opened_state(tmp_path) as state:
        model = make_model(state, num_systems=2)
        state.workflows.ensure(
            workflow, session="job-operator", user=User(), reserves_resources=True
        )
        state.leases.grant(workflow, seconds=60)
        desk = Desk(state, model)
        desk.reconciler.start()
        desk.reconciler.hold(workflow)
        run(desk, "wsjob-1", workflow=workflow)
        waiting = desk.submit(new_job("wsjob-w", workflow=WorkflowId("wflow-2")))
        wait_for(lambda: desk.is_queued(waiting))
        # `desk` is left as a killed management would leave it.
        successor = Desk(state, model)
        successor.launcher.known = desk.launcher.known
        successor.reconciler.start()
        wait_for(lambda: successor.is_queued(waiting))
        (grant,) = successor.reconciler.published.snapshot.grants
        assert grant.systems == ("systemf0", "systemf1")
        (kept,) = model.facts.reservations
        assert kept.systems == grant.systems
        assert successor.launcher.launched == []
        desk.reconciler._is_closing.set()
        successor.reconciler.close()


def test_what_cannot_be_taken_in_leaves_other_jobs_alone(tmp_path, caplog):
    with running_desk(tmp_path) as desk:
        good = run(desk, "wsjob-g", num_systems=1)
        bad = run(desk, "wsjob-b", num_systems=1)
        with desk.state.database.transaction() as rows:
            rows.connection().exec_driver_sql(f"UPDATE jobs SET phase='RUNNING' WHERE id='{bad}'")
        desk.reconciler.post(bad, machine.CoordinatorReady())
        desk.reconciler.post(good, machine.CoordinatorReady())
        wait_for(lambda: desk.jobs.load(good).phase is Phase.RUNNING)
        assert "was not taken in" in caplog.text


def test_a_superseded_management_writes_nothing_more(tmp_path):
    with opened_state(tmp_path) as state:
        model = make_model(state, num_systems=2)
        state.database.claim()
        ended = []
        desk = Desk(state, model, on_superseded=lambda: ended.append(1))
        desk.reconciler.start()
        job = run(desk, "wsjob-1")
        with opened_state(tmp_path) as other:
            other.database.claim()
            desk.reconciler.post(job, machine.CoordinatorReady())
            wait_for(lambda: ended)
            assert other.jobs.load(job).phase is Phase.INITIALIZING
            with pytest.raises(StaleWriterError, match="Another management"):
                state.jobs.set_message(job, "too late")
