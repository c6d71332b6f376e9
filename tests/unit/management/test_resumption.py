"""How a new management goes on with the jobs of an earlier one."""

from dataclasses import replace

import pytest

from appliance.cluster.launcher import PodExit, Survivor
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import JobRecord, User
from appliance.core.ids import JobId, PodName, Role, WorkflowId
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.resumption import resume
from appliance.management.reconciler.verdicts import Verdict
from tests.support.clock import FakeClock

JOB = JobRecord(
    id=JobId("wsjob-a"),
    type=JobType.EXECUTE,
    session="job-operator",
    workflow=WorkflowId("wflow-1"),
    user=User(),
    num_systems=1,
    sequence=1,
    phase=Phase.RUNNING,
    message="",
    systems=("systemf0",),
    service_address="localhost:1",
    artifact_dir="",
    created_at=FakeClock().now(),
    started_at=FakeClock().now(),
    ended_at=None,
)
PIDS = {PodName("wsjob-a-coordinator-0"): 7}
ALIVE = Survivor(pids=PIDS, exits=(), is_stopped=False)


def in_phase(phase, **changes):
    return replace(JOB, phase=phase, **changes)


def test_a_queued_job_waits_again():
    plan = resume(in_phase(Phase.QUEUED), None)
    assert (plan.waits, plan.launches, plan.forgets) == (True, False, False)
    assert resume(in_phase(Phase.QUEUED), ALIVE).forgets  # of a run before it was preempted


def test_an_admitted_job_that_the_launcher_does_not_know_is_launched():
    plan = resume(in_phase(Phase.SCHEDULED, service_address=""), None)
    assert plan.launches
    assert plan.events == ()


def test_an_admitted_job_whose_pods_run_is_launched_already():
    plan = resume(in_phase(Phase.SCHEDULED, service_address=""), ALIVE)
    assert (plan.launches, plan.pids) == (False, PIDS)
    assert plan.events == (machine.Launched(),)


def test_a_registration_that_was_answered_counts():
    assert resume(in_phase(Phase.INITIALIZING), ALIVE).events == (machine.CoordinatorReady(),)
    plan = resume(in_phase(Phase.SCHEDULED), ALIVE)
    assert plan.events == (machine.Launched(), machine.CoordinatorReady())


def test_what_pods_did_meanwhile_is_told_again():
    end = PodExit(
        job=JOB.id, pod=PodName("wsjob-a-chief-0"), role=Role.CHIEF, exit_code=137, signal=9
    )
    gone = Survivor(pids=PIDS, exits=(end,), is_stopped=True)
    plan = resume(JOB, gone)
    assert plan.exits == (end,)
    assert plan.events == (machine.Stopped(),)


@pytest.mark.parametrize("phase", [Phase.INITIALIZING, Phase.RUNNING, Phase.FAILING])
def test_a_job_whose_pods_are_gone_is_lost(phase):
    lost, stopped = resume(in_phase(phase), None).events
    assert lost.reason == "was lost: its launcher ended while management was away"
    assert stopped == machine.Stopped()


def test_a_verdict_outlives_management():
    verdict = Verdict(phase=Phase.CANCELLED, message="said ada")
    plan = resume(replace(JOB, verdict=verdict.to_dict()), ALIVE)
    assert plan.state.verdict == verdict
    lost = resume(in_phase(Phase.SCHEDULED, verdict=verdict.to_dict()), None)
    assert not lost.launches
