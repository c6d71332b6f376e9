"""A coordinator whose process is stopped is named, and once more when it goes on."""

import os
import signal
import subprocess
from contextlib import contextmanager

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import PodRecord
from appliance.core.ids import PodName, Role
from appliance.management.background.coordinator_watch import CoordinatorWatch, local_process
from tests.support.management import move, new_job, opened_state


@contextmanager
def process_named(name):
    process = subprocess.Popen([name, "600"], executable="/bin/sleep")
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stop(process):
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)


def let_go_on(process):
    process.send_signal(signal.SIGCONT)
    os.waitid(os.P_PID, process.pid, os.WCONTINUED)


@pytest.fixture
def state(tmp_path):
    with opened_state(tmp_path) as state:
        yield state


def running_coordinator(state, pid):
    job = state.jobs.create(new_job("wsjob-a"))
    name = PodName("wsjob-a-coordinator-0")
    state.pods.create([PodRecord(name=name, job=job.id, role=Role.COORDINATOR, index=0, node="n")])
    move(state.jobs, job.id, Phase.QUEUED, Phase.SCHEDULED)
    state.pods.set_running({name: pid})
    return job.id


def events(state, job):
    return [each for each in state.jobs.events(job) if each.reason.startswith("Pod")]


def test_a_stopped_coordinator_is_named_once_and_again_when_it_goes_on(state):
    with process_named("wsjob-a-coordinator-0") as process:
        job = running_coordinator(state, process.pid)
        watch = CoordinatorWatch(state)
        watch.look()
        stop(process)
        watch.look()
        assert events(state, job) == []  # a moment is nothing to speak of
        for _ in range(3):
            state.clock.advance(4.0)
            watch.look()
        (silent,) = events(state, job)
        assert silent.is_warning
        assert silent.subject == "wsjob-a-coordinator-0"
        assert f"kill -CONT {process.pid}" in silent.message
        let_go_on(process)
        watch.look()
        assert [each.reason for each in events(state, job)] == ["PodSilent", "PodAnswers"]


def test_a_process_id_that_is_another_programs_by_now_says_nothing(state):
    with process_named("something-else") as process:
        job = running_coordinator(state, process.pid)
        stop(process)
        watch = CoordinatorWatch(state)
        for _ in range(3):
            watch.look()
            state.clock.advance(4.0)
        assert events(state, job) == []
        pod = state.pods.of_job(job)[0]
        assert local_process(pod) is None
