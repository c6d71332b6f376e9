"""Who speaks for a job has to know the job's key, and what it says is checked."""

import asyncio
import inspect
from types import SimpleNamespace

import pytest
from google.protobuf.message_factory import GetMessageClass

from appliance.core.clock import SystemClock
from appliance.core.cluster.run import PodReadings
from appliance.core.errors import ClusterError, ForbiddenError, UserError
from appliance.core.pods.pod_spec import JOB_KEY_METADATA
from appliance.management.pods.held_ports import HeldPorts
from appliance.management.rpc.client.lease_beats import Presence
from appliance.management.rpc.driver_servicer import DriverControlServicer
from appliance.management.rpc.inner_servicer import JobReports, PodPlaces
from protos.wsc.v1 import drivers_pb2
from protos.wsc.v1 import management_pb2 as pb
from tests.support.clock import FakeClock

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


def places(*hosts, key_of=None):
    """Where coordinators are that run at these hosts."""
    known = SimpleNamespace(coordinator_hosts=lambda _: frozenset(hosts))
    return PodPlaces(Jobs(), None, HeldPorts(FakeClock(), is_needed=False), known, key_of=key_of)


class Jobs:
    """Takes what is registered."""

    registered = ()

    async def look(self, asked, *arguments):
        return asked(*arguments)

    def coordinator_registered(self, job, address, committed):
        self.registered = (job, address)
        committed.set_result(None)


def register(places, address, *, control=""):
    request = pb.RegisterCoordinatorRequest(
        job="wsjob-a", service_address=address, control_address=control or "10.0.0.7:9"
    )
    places._note_far = lambda *_: None
    asyncio.run(places.RegisterCoordinator(request, call()))
    return places._jobs.registered[1]


@pytest.mark.parametrize(
    "address", ["", "localhost", "localhost:", ":9000", "localhost:x", "fd00::7:9000", "a:70000"]
)
def test_a_coordinator_that_listens_nowhere_is_refused(address):
    with pytest.raises(UserError, match="is no host:port at which a coordinator listens"):
        register(places("10.0.0.7"), address)


ELSEWHERE = (
    "169.254.169.254:80",
    "127.0.0.1:8080",
    "localhost:8080",
    "10.0.0.8:9000",
    "[::1]:9000",
    "[::ffff:10.0.0.8]:9000",
    "kubernetes.default.svc:443",
    "10.0.0.7.evil.example:9000",
    "167772167:9000",
    "0x0a000007:9000",
    "10.0.0.07:9000",
)


@pytest.mark.parametrize("address", ELSEWHERE)
def test_a_coordinator_cannot_say_that_it_listens_where_it_does_not_run(address):
    with pytest.raises(ForbiddenError, match=r"says that it listens at .*, and it runs at 10\.0"):
        register(places("10.0.0.7"), address)
    with pytest.raises(ForbiddenError, match="says that it listens at"):
        register(places("10.0.0.7"), "10.0.0.7:9000", control=address)


@pytest.mark.parametrize(
    ("hosts", "address"),
    [
        (("10.0.0.7", "fd00::7"), "10.0.0.7:9000"),
        (("10.0.0.7", "fd00::7"), "[FD00:0::7]:9000"),
        (("10.0.0.7", "Coordinators"), "coordinators:9000"),
        (("127.0.0.3",), "localhost:9000"),
    ],
)
def test_a_coordinator_listens_where_it_runs_however_that_is_written(hosts, address):
    assert register(places(*hosts), address, control=f"{hosts[0]}:9") == address


def test_a_coordinator_comes_again_while_nobody_knows_where_it_runs():
    with pytest.raises(ClusterError, match="not known yet where the coordinator"):
        register(places(), "10.0.0.7:9000")


def methods():
    """Return every method of the services that pods of other nodes reach."""
    keys = {"key_of": "the key of {}".format}
    jobs = Reports()
    of_jobs = servicer(jobs, **keys)
    of_places = PodPlaces(None, None, None, None, **keys)
    of_drivers = DriverControlServicer(None, **keys)
    for name, file in (("Management", pb), ("DriverControl", drivers_pb2)):
        service = file.DESCRIPTOR.services_by_name[name]
        for method in service.methods:
            owners = (of_jobs, of_places, of_drivers)
            owner = next(each for each in owners if hasattr(each, method.name))
            request = GetMessageClass(method.input_type)(job="wsjob-a")
            yield pytest.param(getattr(owner, method.name), request, id=method.name)


@pytest.mark.parametrize(("method", "request_"), list(methods()))
@pytest.mark.parametrize("metadata", [(), ((JOB_KEY_METADATA, "the key of wsjob-b"),)])
def test_a_pod_of_another_job_says_nothing_of_this_one_by_any_method(method, request_, metadata):
    async def answer():
        answer = method(request_, call(*metadata))
        return await answer if inspect.isawaitable(answer) else answer

    with pytest.raises(ForbiddenError, match="wsjob-a"):
        asyncio.run(answer())


@pytest.mark.parametrize(
    "report",
    [
        pb.PodReport(pod="wsjob-b-chief-0", role="chief", step=7),
        pb.PodReport(pod="wsjob-a-b-chief-0", role="chief", step=7),
        pb.PodReport(pod="wsjob-a-chief-0", role="weight", step=7),
        pb.PodReport(pod="wsjob-a-chief-0", role="chief", index=1),
        pb.PodReport(pod="wsjob-a-janitor-0", role="janitor"),
        pb.PodReport(),
    ],
)
def test_a_job_reports_of_its_own_pods_alone(report):
    jobs = Reports()
    with pytest.raises(ForbiddenError, match="no pod of job wsjob-a"):
        servicer(jobs, key_of=None).ReportJob(pb.JobReport(job="wsjob-a", pods=[report]), call())
    assert jobs.taken == []


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e300, -1e18])
def test_a_value_of_no_time_is_refused_as_the_reporters_fault(seconds):
    point = pb.SeriesPoint(name="loss", at_seconds=seconds)
    with pytest.raises(UserError, match="no time of a value"):
        servicer(Reports(), key_of=None).ReportJob(
            pb.JobReport(job="wsjob-a", points=[point]), call()
        )
