"""Management is killed at eighty random moments under load, and nobody's job notices.

No job that was confirmed is lost, none runs twice, no pod is left over, and no system is ever held
by two jobs. Everything is real: processes, sockets, SQLite; only what pods do is left out.
"""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from appliance.cluster.process_launcher import end_survivors
from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import Phase, may_follow
from appliance.core.dataclass_json import to_json
from appliance.core.queries.job_filter import JobFilter
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.options.settings_by_group import ListenOptions, QueueOptions
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from protos.appliance.common_config_pb2 import JobMode
from protos.cluster import cluster_pb2 as pb
from protos.cluster import cluster_pb2_grpc
from protos.csctl import api_pb2, api_pb2_grpc, resources_pb2
from tests.support.appliance_process import (
    ROOT,
    USER,
    execute_request,
    leave_artifact,
    pods_of,
    wait_for,
)
from tests.support.counted_pod import STARTS
from tests.support.faulty_link import FaultyLink
from tests.support.ports import free_port

NUM_KILLS = 80
NUM_SYSTEMS = 3
NUM_CLIENTS = 3
PODS_OF_EXECUTE = 6
SEED = 20260


class Zygote:
    """Forks managements and kills them."""

    def __init__(self, data_dir: Path, port: int) -> None:
        self.runtime_root = Path(f"/tmp/wsc-k{os.getpid()}")
        options = ManagementOptions(
            data_dir=data_dir,
            runtime_root=self.runtime_root,
            num_systems=NUM_SYSTEMS,
            listen=ListenOptions(port=port),
            queue=QueueOptions(lease_seconds=600),
        )
        self._log = (data_dir / "zygote.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.management_zygote", to_json(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=ROOT,
        )

    def start(self) -> None:
        self._command(b"start\n")

    def wait_ready(self) -> None:
        assert self._answer().startswith(b"ready"), "management did not start; see zygote.log"

    def kill(self) -> None:
        """Kill management; what it said before counts for nothing."""
        self._command(b"kill\n")
        while (answer := self._answer()) != b"killed\n":
            assert answer.startswith(b"ready"), "management ended by itself; see zygote.log"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._log.close()
        end_survivors(self.runtime_root, timeout_seconds=30)
        shutil.rmtree(self.runtime_root, ignore_errors=True)

    def _command(self, line: bytes) -> None:
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def _answer(self) -> bytes:
        return self._process.stdout.readline()


@dataclass
class Load:
    """Clients that submit jobs, let them run, and end them one way or the other."""

    port: int
    seed: int
    data_dir: Path
    expected: dict[str, set[Phase]] = field(default_factory=dict)
    stopping: threading.Event = field(default_factory=threading.Event)
    errors: list[BaseException] = field(default_factory=list)

    def start(self) -> None:
        options = (("grpc.min_reconnect_backoff_ms", 20), ("grpc.max_reconnect_backoff_ms", 50))
        self.channel = grpc.insecure_channel(f"localhost:{self.port}", options)
        self.csctl = api_pb2_grpc.CsCtlV1Stub(self.channel)
        self.stub = cluster_pb2_grpc.ClusterManagementStub(self.channel)
        self.threads = [
            threading.Thread(target=self._run, args=(random.Random(self.seed + number),))
            for number in range(NUM_CLIENTS)
        ]
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join(300)
            assert not thread.is_alive(), "a client still waits for its job"
        self.channel.close()
        assert self.errors == []

    def _run(self, chance: random.Random) -> None:
        try:
            while not self.stopping.is_set():
                self._one_job(chance)
        except BaseException as error:
            self.errors.append(error)
            raise

    def _one_job(self, chance: random.Random) -> None:
        kind = chance.choice(("compile", "execute", "execute", "pod killed", "cancelled"))
        if kind == "compile":
            request = pb.CompileJobRequest(
                job_mode=JobMode(job=JobMode.COMPILE), compile_dir_relative_path="cached_compile"
            )
            job = self._submit(self.stub.InitCompileJob, request)
        else:
            request = execute_request(chance.choice((1, 1, 2)), 1)
            job = self._submit(self.stub.InitExecuteJob, request)
        ends = {
            "pod killed": {Phase.FAILED},
            "cancelled": {Phase.CANCELLED, Phase.SUCCEEDED},
        }
        self.expected[job] = ends.get(kind, {Phase.SUCCEEDED})
        if kind != "cancelled":
            self._wait(job, pb.JOB_STATUS_IN_PROGRESS)
        if kind == "pod killed":
            wait_for(lambda: pods_of(job), what=f"a pod of {job}")
            os.kill(max(pods_of(job)), signal.SIGKILL)
            self._wait(job, pb.JOB_STATUS_FAILED)
            return
        if kind == "execute":  # which pods begin before the end is told is a matter of luck
            wait_for(lambda: self._num_starts(job) >= PODS_OF_EXECUTE, what=f"{job}'s pods")
        end = pb.JOB_STATUS_CANCELLED if kind == "cancelled" else pb.JOB_STATUS_SUCCEEDED
        if kind == "compile":
            artifact = leave_artifact(self.data_dir)
            done = pb.CompileResultRequest(job_id=job, compile_artifact_dir=artifact)
            self._confirmed(self.stub.FinalizeCompileJob, done)
        while self._status(job) not in TERMINAL:
            self._confirmed(self.stub.CancelJobV2, pb.CancelJobRequest(job_id=job, job_status=end))

    def _num_starts(self, job: str) -> int:
        path = self.data_dir / "jobs" / job / STARTS
        return len(path.read_text().split()) if path.exists() else 0

    def _submit(self, call, request) -> str:
        """Submit a job; one whose submission is not confirmed is cancelled, should it be there."""
        while True:
            attempt = f"{next(ATTEMPTS)}"
            request.debug_args.debug_mgr.labels["attempt"] = attempt
            try:
                return call(request, timeout=60, metadata=USER).job_id
            except grpc.RpcError as error:
                if error.code() not in AWAY:
                    raise
            options = api_pb2.GetOptions(label_filters={"attempt": attempt})
            wanted = api_pb2.GetRequest(
                type="jobs", accept=api_pb2.PROTOBUF_METHOD, options=options
            )
            found = resources_pb2.JobList.FromString(self._confirmed(self.csctl.Get, wanted).raw)
            for item in found.items:
                end = pb.CancelJobRequest(job_id=item.meta.name, job_status=pb.JOB_STATUS_CANCELLED)
                self._confirmed(self.stub.CancelJobV2, end)

    def _wait(self, job: str, *wanted: int) -> None:
        while (status := self._status(job)) not in (*wanted, *TERMINAL):
            time.sleep(0.05)  # noqa: TID251 - asks a real process that comes and goes
        assert status in wanted, f"{job} is {pb.JobStatus.Name(status)}"

    def _status(self, job: str) -> int:
        return self._confirmed(self.stub.GetJob, pb.GetJobRequest(job_id=job)).status

    def _confirmed(self, call, request):
        """Repeat a call until a management has answered it."""
        while True:
            try:
                return call(request, timeout=60, metadata=USER)
            except grpc.RpcError as error:
                if error.code() not in AWAY:
                    raise
                time.sleep(0.02)  # noqa: TID251 - nobody serves at this moment


ATTEMPTS = itertools.count()
AWAY = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,  # the stream was cut in the middle of an answer
)
TERMINAL = (pb.JOB_STATUS_SUCCEEDED, pb.JOB_STATUS_FAILED, pb.JOB_STATUS_CANCELLED)


@pytest.mark.slow
def test_eighty_kills_lose_no_job_and_run_none_twice(tmp_path):
    chance = random.Random(SEED)
    port = free_port()
    zygote, load = Zygote(tmp_path, port), Load(port, SEED, tmp_path)
    try:
        zygote.start()
        zygote.wait_ready()
        load.start()
        for _ in range(NUM_KILLS):
            pause = chance.uniform(0.0, 0.25)
            time.sleep(pause)  # noqa: TID251 - the moment of the kill
            zygote.kill()
            zygote.start()
            if chance.random() < 0.7:  # else it may be killed before it serves
                zygote.wait_ready()
        load.stop()
        check_everything(tmp_path, load.expected)
    except BaseException:
        print((tmp_path / "zygote.log").read_text()[-8000:])
        raise
    finally:
        load.stopping.set()
        zygote.close()


RETRYING = (
    # As in the client, whose first wait is two seconds.
    (
        "grpc.service_config",
        json.dumps(
            {
                "methodConfig": [
                    {
                        "name": [{"service": "cluster.cluster_mgmt_pb.ClusterManagement"}],
                        "retryPolicy": {
                            "maxAttempts": 5,
                            "initialBackoff": "0.5s",
                            "maxBackoff": "2s",
                            "backoffMultiplier": 2,
                            "retryableStatusCodes": ["UNAVAILABLE", "UNKNOWN"],
                        },
                    }
                ]
            }
        ),
    ),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 100),
)


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "cut"])
def test_a_call_whose_answer_is_lost_gets_the_job_that_it_made(tmp_path, is_killed):
    port = free_port()
    zygote = Zygote(tmp_path, port)
    execute = execute_request(1, 1)
    compile_ = pb.CompileJobRequest(
        job_mode=JobMode(job=JobMode.COMPILE), compile_dir_relative_path="cached_compile"
    )
    try:
        zygote.start()
        zygote.wait_ready()
        with (
            FaultyLink(f"127.0.0.1:{port}") as link,
            grpc.insecure_channel(link.address, RETRYING) as channel,
        ):
            stub = cluster_pb2_grpc.ClusterManagementStub(channel)
            stub.GetServerConfig(pb.GetServerConfigRequest(), wait_for_ready=True, timeout=300)
            link.swallow()
            calls = [
                stub.InitExecuteJob.future(execute, metadata=USER, timeout=300),
                stub.InitCompileJob.future(compile_, metadata=USER, timeout=300),
            ]
            wait_for(lambda: len(kept_jobs(tmp_path)) == len(calls), what="two jobs kept")
            if is_killed:
                zygote.kill()
                zygote.start()
                zygote.wait_ready()
            link.cut()
            answers = {call.result().job_id for call in calls}
            assert len(answers) == len(calls)
            assert answers == set(kept_jobs(tmp_path))
            again = stub.InitExecuteJob(execute, metadata=USER, timeout=300)
            assert again.job_id not in answers, "the same request, said twice, is two jobs"
    finally:
        zygote.close()


def kept_jobs(data_dir: Path) -> list[str]:
    database = Database(f"sqlite:///{data_dir / 'state.db'}")
    try:
        found = State.over(database, SystemClock()).jobs.list(JobFilter(with_finished=True))
        return [job.id for job in found]
    finally:
        database.close()


def check_everything(data_dir: Path, expected: dict[str, set[Phase]]) -> None:
    assert len(expected) >= NUM_KILLS // 10, "there was no load to speak of"
    database = Database(f"sqlite:///{data_dir / 'state.db'}")
    try:
        state = State.over(database, SystemClock())
        wait_for(lambda: not state.jobs.unfinished() or only_unconfirmed(state, expected))
        jobs = {job.id: job for job in state.jobs.list(JobFilter(with_finished=True))}
        assert expected.keys() <= jobs.keys(), "a confirmed job is lost"
        for name, phases in expected.items():
            job = jobs[name]
            assert job.phase in phases, f"{name} is {job.phase}: {job.message}"
            check_history(state, job)
            check_starts(job)
            assert pods_of(name) == set(), f"{name} has ended and has pods"
        check_systems(jobs.values())
    finally:
        database.close()


def only_unconfirmed(state, expected) -> bool:
    """A job whose submission was never confirmed has no client, and waits for its lease's end."""
    return all(job.id not in expected for job in state.jobs.unfinished())


def check_history(state, job) -> None:
    phases = [event.phase for event in state.jobs.events(job.id) if event.phase is not None]
    assert all(may_follow(one, two) for one, two in itertools.pairwise(phases)), phases
    assert phases[-1] is job.phase


def check_starts(job) -> None:
    path = Path(job.work_dir) / STARTS
    starts = Counter(path.read_text().split()) if path.exists() else Counter()
    assert set(starts.values()) <= {1}, f"{job.id} ran twice: {starts}"
    if job.phase is Phase.SUCCEEDED and job.num_systems == 1:
        assert len(starts) == PODS_OF_EXECUTE


def check_systems(jobs) -> None:
    held = sorted(
        (job.started_at, job.ended_at, name, job.id)
        for job in jobs
        if job.started_at is not None and job.ended_at is not None
        for name in job.systems
    )
    last = {}
    for started, ended, name, job in held:
        if name in last:
            end, before = last[name]
            assert end <= started, f"{name} was held by {before} and {job} at {started}"
        last[name] = (ended, job)
