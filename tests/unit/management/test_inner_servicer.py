"""Who speaks for a job has to know the job's key, and what it says is checked."""

import asyncio
from types import SimpleNamespace

import pytest

from appliance.core.clock import SystemClock
from appliance.core.cluster.run import PodReadings
from appliance.core.errors import ForbiddenError, UserError
from appliance.core.pods.pod_spec import JOB_KEY_METADATA
from appliance.management.rpc.client.lease_beats import Presence
from appliance.management.rpc.inner_servicer import JobReports, PodPlaces
from protos.wsc.v1 import management_pb2 as pb

REPORT = pb.JobReport(job="wsjob-a", phase="FAILED", message="over")


class Reports:
    """Jobs that note what is reported of them."""

    def __init__(self):
        self.taken, self.sessions = [], []

    def reported(self, job, **report):
        self.taken.append((job, report["phase"]))
        self.sessions.append(report["session"])


def servicer(jobs, *, key_of):
    return JobReports(jobs, None, SystemClock(), Presence(SystemClock(), 30), key_of=key_of)


def call(*metadata):
    return SimpleNamespace(invocation_metadata=lambda: metadata)


@pytest.mark.parametrize("metadata", [(), ((JOB_KEY_METADATA, "the key of wsjob-b"),)])
def test_whoever_does_not_know_the_jobs_key_is_refused(metadata):
    jobs = Reports()
    with pytest.raises(ForbiddenError, match="wsjob-a"):
        servicer(jobs, key_of="the key of {}".format).ReportJob(REPORT, call(*metadata))
    assert jobs.taken == []


def test_whoever_knows_the_jobs_key_is_heard():
    jobs = Reports()
    who = (JOB_KEY_METADATA, "the key of wsjob-a")
    servicer(jobs, key_of="the key of {}".format).ReportJob(REPORT, call(who))
    assert jobs.taken == [("wsjob-a", "FAILED")]


def test_pods_of_one_machine_and_user_show_no_key():
    jobs = Reports()
    servicer(jobs, key_of=None).ReportJob(REPORT, call())
    assert jobs.taken == [("wsjob-a", "FAILED")]


def test_a_session_is_taken_as_it_is_told_and_at_its_end_with_readings():
    jobs = Reports()
    pods = [pb.PodReport(pod="wsjob-a-chief-0", role="chief", step=7, readings={"wsc_x": 1.5})]
    told = pb.RunSessionReport(session=2, num_steps=9, completed_steps=7, step_seconds=float("nan"))
    servicer(jobs, key_of=None).ReportJob(
        pb.JobReport(job="wsjob-a", session=told, pods=pods), call()
    )
    told.is_over = True
    servicer(jobs, key_of=None).ReportJob(
        pb.JobReport(job="wsjob-a", session=told, pods=pods), call()
    )
    running, over = jobs.sessions
    assert (running.number, running.completed_steps, running.step_seconds) == (2, 7, 0.0)
    assert (running.ended_at, running.pods) == (None, {})
    assert over.ended_at is not None
    assert over.pods == {"wsjob-a-chief-0": PodReadings(step=7, readings={"wsc_x": 1.5})}
    with pytest.raises(UserError, match="no session 0"):
        servicer(jobs, key_of=None).ReportJob(
            pb.JobReport(job="wsjob-a", session=pb.RunSessionReport()), call()
        )


@pytest.mark.parametrize(
    "address", ["", "localhost", "localhost:", ":9000", "localhost:x", "fd00::7:9000", "a:70000"]
)
def test_a_coordinator_that_listens_nowhere_is_refused(address):
    places = PodPlaces(None, None, None, may_start=lambda _: True, key_of=None)
    request = pb.RegisterCoordinatorRequest(job="wsjob-a", service_address=address)
    with pytest.raises(UserError, match="is no host:port at which a coordinator listens"):
        asyncio.run(places.RegisterCoordinator(request, call()))
