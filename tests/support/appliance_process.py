"""A real appliance in the background, with test roles for pods."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import psutil

from appliance.coordinator.compile.artifacts import ArtifactStore
from appliance.management.store.instance import Instance
from protos.appliance.common_config_pb2 import ClusterDetails, DebugArgs, JobMode
from protos.cluster import cluster_pb2, cluster_pb2_grpc
from protos.csctl import api_pb2_grpc
from tests.support import appliance_of_fakes, forked_appliance
from tests.support.appliance_of_fakes import words_of
from tests.support.forked_appliance import run_forked
from tests.support.processes import command_of, variables_of
from tests.support.start_costs import counted
from tests.support.waiting import patience

ROOT = Path(__file__).parents[2]
FAKE_COORDINATOR = "tests.support.fake_coordinator"
REAL_COORDINATOR = "appliance.coordinator.__main__"
_IDLE_ROLES = ("weight", "broadcastreduce", "chief", "activation", "worker")
FAKES = {"coordinator": FAKE_COORDINATOR, **dict.fromkeys(_IDLE_ROLES, "tests.support.idle_pod")}
"""Programs of pods that run nothing, by role."""
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.1
"""Between two looks; one at all processes of a machine takes it some ten milliseconds."""


def run_command(
    *arguments: str,
    timeout: float = 300,
    program: str = forked_appliance.NAME,
    is_forked: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run `appliance ...` from the source tree, in a process that has imported it or by itself."""
    words = ("-m", program, *arguments)
    if is_forked:
        return run_forked(words, environment=os.environ, timeout=timeout)
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@dataclass
class ApplianceProcess:
    """A running appliance and stubs to talk to it.

    Attributes:
        data_dir: Where it keeps its data.
        arguments: Further arguments of `appliance up`.
        coordinator: Program of coordinators.
        is_forked: Whether its commands and its management are forked from an interpreter that has
            their imports; else they show their own command lines and environment.
    """

    data_dir: Path
    arguments: tuple[str, ...] = ()
    coordinator: str = FAKE_COORDINATOR
    is_forked: bool = True

    def up(self) -> subprocess.CompletedProcess[str]:
        # Nobody renews these jobs' leases, and a test says when they end.
        common = ["--port", "0", "--rest-port", "0", "--lease-seconds", "900"]
        with counted("appliances of fakes"):
            answer = run_command(
                *([appliance_of_fakes.FORKED] if self.is_forked else []),
                *words_of({**FAKES, "coordinator": self.coordinator}),
                *("up", "--data-dir", str(self.data_dir), *common, *self.arguments),
                program=appliance_of_fakes.NAME,
                is_forked=self.is_forked,
            )
        assert answer.returncode == 0, answer.stderr + self.log()
        self.warnings = answer.stderr
        self.channel = self.connect()
        self.cluster = cluster_pb2_grpc.ClusterManagementStub(self.channel)
        self.csctl = api_pb2_grpc.CsCtlV1Stub(self.channel)
        return answer

    def down(self) -> subprocess.CompletedProcess[str]:
        if hasattr(self, "channel"):
            self.channel.close()
        return run_command("down", "--data-dir", str(self.data_dir))

    def authority_pem(self) -> bytes:
        """Return the certificate authority that clients are told; empty without TLS."""
        spaces = self.told_cluster()["namespaces"]
        return base64.b64decode(spaces[0]["certificateAuthorityData"]) if spaces else b""

    def told_cluster(self) -> dict:
        """Return what the config file tells clients of the cluster."""
        (cluster,) = json.loads((self.data_dir / "config_v2").read_text())["clusters"]
        return cluster

    def connect(self, authority: str = "", **options: int) -> grpc.Channel:
        """Return a connection, as the client makes it by the config file.

        Args:
            authority: Name asked for; empty for management's own.
            options: Further options of the channel, without `grpc.`.
        """
        cluster = self.told_cluster()
        extra = [(f"grpc.{name}", value) for name, value in options.items()]
        if not (pem := self.authority_pem()):
            return grpc.insecure_channel(cluster["server"], extra)
        wanted = authority or f"{cluster['namespaces'][0]['name']}.{cluster['authority']}"
        named = [("grpc.default_authority", wanted), *extra]
        return grpc.secure_channel(cluster["server"], grpc.ssl_channel_credentials(pem), named)

    def kill_management(self) -> None:
        """Kill management, and nothing else; afterwards another may take its place."""
        os.kill(self.state.pid, signal.SIGKILL)
        wait_for(lambda: not Instance(self.data_dir).is_running(), what="the end of management")

    @property
    def state(self):
        state = Instance(self.data_dir).find_state()
        assert state is not None
        return state

    def log(self) -> str:
        path = Instance(self.data_dir).log_path
        return path.read_text() if path.exists() else ""

    def submit_compile(self, **labels: str) -> str:
        request = cluster_pb2.CompileJobRequest(
            job_mode=JobMode(job=JobMode.COMPILE), compile_dir_relative_path="cached_compile"
        )
        request.debug_args.debug_mgr.labels.update(labels)
        return self.cluster.InitCompileJob(request, metadata=USER).job_id

    def submit_execute(
        self, num_systems: int = 1, workers_per_system: int = 1, **labels: str
    ) -> str:
        request = execute_request(num_systems, workers_per_system)
        request.debug_args.debug_mgr.labels.update(labels)
        return self.cluster.InitExecuteJob(request, metadata=USER).job_id

    def runtime_dir(self, job: str) -> Path:
        return Path(self.state.runtime_root) / job

    def wait_ready(self, job: str) -> list[cluster_pb2.GetIngressResponse]:
        """Return all ingress messages of a job until it is ready or has failed."""
        request = cluster_pb2.GetIngressRequest(job_id=job)
        return list(self.cluster.PollIngressV2(request, timeout=300))

    def status(self, job: str) -> cluster_pb2.GetJobResponse:
        return self.cluster.GetJob(cluster_pb2.GetJobRequest(job_id=job))


USER = (("auth-uid", "1000"), ("auth-gid", "100"), ("auth-username", "ada"))


def leave_artifact(data_dir: Path) -> str:
    """Leave what a coordinator leaves of a program that `USER` compiles; return where."""
    store = ArtifactStore(data_dir / "compile", user=1000)
    directory = store.directory("cached_compile", "cs_1")
    store.store(directory, plan_text="plan", program="program")
    return str(directory)


def execute_request(num_systems: int, workers_per_system: int) -> cluster_pb2.ExecuteJobRequest:
    kind = ClusterDetails.TaskInfo
    counts = {
        kind.CRD: 1,
        kind.WSE: num_systems,
        kind.CHF: num_systems,
        kind.WRK: num_systems * workers_per_system,
        kind.ACT: num_systems,
        kind.WGT: 1,
    }
    details = ClusterDetails()
    for task_type, count in counts.items():
        task = details.tasks.add(task_type=task_type)
        for index in range(count):
            task.task_map.add().task_id.task_id = index
    return cluster_pb2.ExecuteJobRequest(
        job_mode=JobMode(job=JobMode.EXECUTE, cluster_details=details), debug_args=DebugArgs()
    )


def wait_for(condition: Callable[[], object], *, seconds: float = 120, what: str = "") -> None:
    """Wait until a condition holds."""
    limit = patience(seconds)
    deadline = time.monotonic() + limit
    pause_seconds = _SHORTEST_PAUSE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what or condition} does not hold in {limit:.0f} s"
        time.sleep(pause_seconds)  # noqa: TID251 - real processes take real time
        pause_seconds = min(1.5 * pause_seconds, _LONGEST_PAUSE_SECONDS)


def processes_of(job: str) -> list[psutil.Process]:
    """Return the living processes that carry a job's id in their environment or are its pods."""
    return [
        process
        for process in psutil.process_iter()
        if variables_of(process).get("WSC_JOB") == job or _is_pod(process, job)
    ]


def pods_of(job: str) -> set[int]:
    """Return the process ids of a job's living pods.

    A pod shows its name as its command line, a moment after it was forked: to have all pods of a
    job, wait until there are so many.
    """
    return {process.pid for process in psutil.process_iter() if _is_pod(process, job)}


def wait_pods(job: str, count: int) -> set[int]:
    """Wait until so many pods of a job live, and return their process ids."""
    wait_for(lambda: len(pods_of(job)) == count, what=f"{count} pods of {job}")
    return pods_of(job)


def _is_pod(process: psutil.Process, job: str) -> bool:
    return any(word.startswith(f"{job}-") for word in command_of(process)[:1])


def shared_memory_of(job: str) -> list[str]:
    return [name for name in os.listdir("/dev/shm") if job in name]


@contextlib.contextmanager
def running_appliance(
    data_dir: Path,
    *arguments: str,
    coordinator: str = FAKE_COORDINATOR,
    is_forked: bool = True,
) -> Iterator[ApplianceProcess]:
    appliance = ApplianceProcess(data_dir, arguments, coordinator, is_forked)
    try:
        appliance.up()
        yield appliance
    except BaseException:
        print(appliance.log())
        raise
    finally:
        appliance.down()
