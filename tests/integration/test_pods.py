"""The life of a pod process: registration, heartbeats, sessions, failures, ends."""

import json
import signal
import subprocess

import grpc
import pytest

from appliance.core.pods.pod_spec import EXIT_COORDINATOR_FROZEN, EXIT_COORDINATOR_LOST
from protos.wsc.v1 import pods_pb2
from tests.support.pod_processes import SECONDS, make_job

pytestmark = pytest.mark.slow


@pytest.fixture
def job(tmp_path):
    with make_job(tmp_path) as job:
        yield job


@pytest.fixture
def trivial(job):
    process = job.launch("tests.support.trivial_pod", "chief")
    job.wait_until_registered()
    return process


def load(process, behaviour, session=1):
    process.pod.Load(pods_pb2.LoadRequest(session=session, plan=behaviour.encode()))


def start(process, session=1):
    process.pod.Start(pods_pb2.StartRequest(session=session, num_steps=7))


def finish(process, session=1, wait_for_steps=True):
    request = pods_pb2.FinishRequest(session=session, wait_for_steps=wait_for_steps)
    return process.pod.Finish(request, timeout=SECONDS)


def test_a_pod_registers_beats_and_reports_its_steps(job, trivial):
    registered = job.coordinator.registered["wsjob-test-chief-0"]
    assert registered.pid == trivial.process.pid
    assert registered.control_address == trivial.spec.control_address()
    load(trivial, "finish")
    start(trivial)
    assert finish(trivial).steps_completed == 7
    heartbeat = job.coordinator.next_heartbeat("wsjob-test-chief-0")
    assert (heartbeat.session, heartbeat.step) == (1, 7)
    assert heartbeat.readings["wsc_test_total"] == 2.5
    assert heartbeat.resident_bytes > 1_000_000


def test_sessions_follow_one_another(trivial):
    for session in (1, 2):
        load(trivial, "wait", session)
        start(trivial, session)
        finish(trivial, session, wait_for_steps=False)


def test_a_second_session_must_wait_for_the_first(trivial):
    load(trivial, "wait")
    with pytest.raises(grpc.RpcError) as refused:
        load(trivial, "wait", 2)
    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "while session 1 is not finished" in refused.value.details()


def test_a_refused_plan_is_answered_and_leaves_the_pod_free(trivial):
    with pytest.raises(grpc.RpcError) as refused:
        load(trivial, "refuse")
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == "This plan is refused."
    load(trivial, "finish")


def test_a_defect_in_a_loop_is_reported_once_with_its_traceback(job, trivial):
    load(trivial, "defect")
    start(trivial)
    report = job.coordinator.failures.get(timeout=SECONDS)
    assert report.message == (
        "wsjob-test-chief-0 failed in its steps loop: ZeroDivisionError: division by zero"
    )
    assert "in _steps" in report.detail
    finish(trivial)
    load(trivial, "finish", 2)
    assert job.coordinator.failures.empty()


def test_the_users_own_fault_is_marked_as_such(job, trivial):
    load(trivial, "user")
    start(trivial)
    report = job.coordinator.failures.get(timeout=SECONDS)
    assert (report.message, report.is_user_error) == ("Input 'x' is bad. Mend it.", True)
    assert report.detail == ""


def test_stop_ends_the_process_in_order(trivial):
    load(trivial, "wait")
    start(trivial)
    trivial.pod.Stop(pods_pb2.StopRequest(reason="the job has ended"))
    assert trivial.wait() == 0
    lines = [json.loads(line) for line in trivial.log().splitlines()]
    assert lines[-1]["message"] == "Pod ends"
    assert lines[-1]["reason"] == "the job has ended"
    assert lines[-1]["pod"] == "wsjob-test-chief-0"


def test_sigterm_ends_the_process_in_order_and_is_reported(job, trivial):
    load(trivial, "wait")
    start(trivial)
    trivial.process.send_signal(signal.SIGTERM)
    assert trivial.wait() == 0
    report = job.coordinator.failures.get(timeout=SECONDS)
    assert report.message == "wsjob-test-chief-0 was ended by SIGTERM during a session."


def test_the_loss_of_the_coordinator_ends_the_process(job, trivial):
    load(trivial, "wait")
    start(trivial)
    job.coordinator.server.stop(None).wait()
    assert trivial.wait() == EXIT_COORDINATOR_LOST


@pytest.fixture
def sleeper():
    """A process that can be stopped, for a coordinator that is played in this one."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_coordinator_that_is_stopped_is_waited_for_and_then_blamed(job, sleeper):
    job.coordinator.pid = sleeper.pid
    trivial = job.launch("tests.support.trivial_pod", "chief", stall_seconds=16)
    job.wait_until_registered()
    pod = trivial.spec.name
    sleeper.send_signal(signal.SIGSTOP)
    job.coordinator.answers.clear()
    job.coordinator.next_heartbeat(pod)  # the one before it was not answered in time
    assert trivial.process.poll() is None
    sleeper.send_signal(signal.SIGCONT)
    job.coordinator.answers.set()
    job.coordinator.next_heartbeat(pod)
    assert trivial.process.poll() is None
    sleeper.send_signal(signal.SIGSTOP)
    job.coordinator.answers.clear()
    assert trivial.wait() == EXIT_COORDINATOR_FROZEN
