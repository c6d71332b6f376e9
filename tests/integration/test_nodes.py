"""Pods on several nodes: joining, gangs, lost nodes and agents, a management that starts anew."""

import contextlib
import datetime as dt
import os
import shutil
import signal
from pathlib import Path

import httpx
import psutil
import pytest

from protos.cluster import cluster_pb2
from tests.support.appliance_of_fakes import NAME, words_of
from tests.support.appliance_process import (
    FAKES,
    ApplianceProcess,
    pods_of,
    run_command,
    shared_memory_of,
    wait_for,
    wait_pods,
)
from tests.support.nodes import (
    NodeProcess,
    agent_arguments,
    joined_nodes,
    write_token,
)
from tests.support.ports import free_ports
from tests.support.processes import command_of
from tests.support.rest import rest_client

pytestmark = pytest.mark.slow

ORPHANS = ("--orphan-seconds", "600")
LONG_GRACE, SHORT_GRACE = "300", "10"


class Cluster:
    """An appliance whose pods run on three nodes: a head, and two with a CS-2 each."""

    def __init__(self, tmp_path: Path) -> None:
        self.inner_port, self.node_port, self.port = free_ports(3)
        self.appliance = ApplianceProcess(tmp_path / "data")
        self.start_management(LONG_GRACE)
        self.directory = tmp_path
        self.token = write_token(self.appliance.data_dir)
        self.head = self.node("head", 2, "management", "memory", "broadcastreduce", "worker")
        self.first = self.node("csx-0", 3, "activation")
        self.second = self.node("csx-1", 4, "activation")
        self.nodes = (self.head, self.first, self.second)

    def node(
        self, name: str, number: int, *roles: str, prefix: tuple[str, ...] = ()
    ) -> NodeProcess:
        return NodeProcess(
            name,
            f"127.0.0.{number}",
            roles,
            join=f"127.0.0.1:{self.node_port}",
            token=self.token,
            directory=self.directory,
            extra=ORPHANS,
            program=(NAME, *words_of(FAKES)),
            prefix=prefix,
        )

    def running_job(self, num_systems: int = 2) -> str:
        """Submit an execute job and return it once its pods run."""
        job = self.appliance.submit_execute(num_systems)
        answers = self.appliance.wait_ready(job)
        assert answers[-1].is_ready, answers
        return job

    def places(self, job: str) -> dict[str, str]:
        """Return which pod is ready on which node."""
        return {
            path.stem: node.name
            for node in self.nodes
            for path in node.runtime_dir(job).glob("*.ready")
        }

    def cancel(self, job: str) -> None:
        status = cluster_pb2.JOB_STATUS_CANCELLED
        request = cluster_pb2.CancelJobRequest(job_id=job, job_status=status)
        self.appliance.cluster.CancelJobV2(request)

    def wait_failed(self, job: str) -> str:
        """Wait until a job has failed and return why."""
        wait_for(
            lambda: self.status(job) == cluster_pb2.JOB_STATUS_FAILED,
            seconds=300,
            what=f"{job} failed",
        )
        return self.appliance.status(job).message

    def status(self, job: str) -> int:
        return self.appliance.status(job).status

    def entered(self, job: str, phase: str) -> dt.datetime:
        """Return when a job came into a phase."""
        with rest_client(self.appliance) as rest:
            spans = rest.get(f"jobs/{job}").json()["phases"]
        (at,) = [span["entered_at"] for span in spans if span["phase"] == phase]
        return dt.datetime.fromisoformat(at)

    def assert_nothing_left(self, job: str) -> None:
        wait_for(lambda: not pods_of(job), what=f"no pod of {job} is left")
        wait_for(lambda: not any(node.runtime_dir(job).exists() for node in self.nodes))
        assert shared_memory_of(job) == []

    def start_management(self, grace: str) -> None:
        ports = agent_arguments(self.inner_port, self.node_port)
        self.appliance.arguments = (*ports, "--node-grace-seconds", grace, "--systems", "2")
        self.appliance.up()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("nodes"))
    try:
        with joined_nodes(*cluster.nodes):
            yield cluster
    finally:
        cluster.appliance.down()


def test_a_job_runs_on_the_nodes_that_its_pods_belong_to_and_leaves_nothing(cluster):
    job = cluster.running_job()
    wait_for(lambda: len(cluster.places(job)) == 8, what="all pods but the coordinator are ready")
    assert cluster.places(job) == {
        "weight-0": "head",
        "broadcastreduce-0": "head",
        "worker-0": "head",
        "worker-1": "head",
        "chief-0": "csx-0",
        "activation-0": "csx-0",
        "chief-1": "csx-1",
        "activation-1": "csx-1",
    }
    cluster.cancel(job)
    cluster.assert_nothing_left(job)


def test_the_nodes_are_shown_with_what_they_say_of_themselves(cluster):
    answer = run_command("status", "--data-dir", str(cluster.appliance.data_dir))
    assert f"nodes join 127.0.0.1:{cluster.node_port}" in answer.stdout
    job = cluster.running_job(num_systems=1)
    rest = f"{cluster.appliance.state.rest_url}/api/v1/cluster"
    shown = {node["name"]: node for node in httpx.get(rest, timeout=120).json()["nodes"]}
    assert shown["head"]["roles"] == ["management", "memory", "broadcastreduce", "worker"]
    jobs = {name: node["jobs"] for name, node in shown.items()}
    assert jobs == {"head": [job], "csx-0": [job], "csx-1": []}
    cluster.cancel(job)
    cluster.assert_nothing_left(job)


def test_an_agent_that_comes_back_in_time_takes_its_pods_over(cluster):
    job = cluster.running_job()
    wait_for(lambda: len(cluster.places(job)) == 8, what="all pods are ready")
    before, num_joined = wait_pods(job, 9), cluster.first.num_joined()
    cluster.first.kill()
    cluster.first.start()
    cluster.first.wait_joined(num_joined + 1)
    assert pods_of(job) == before
    assert cluster.status(job) == cluster_pb2.JOB_STATUS_IN_PROGRESS
    (chief,) = [
        pid
        for pid in before
        if command_of(psutil.Process(pid))[0].rstrip("\0").endswith(f"{job}-chief-0")
    ]
    os.kill(chief, signal.SIGKILL)
    assert f"[{job}-chief-0]: exited with code 137" in cluster.wait_failed(job)
    cluster.assert_nothing_left(job)


def test_a_job_survives_a_killed_management_and_fails_with_a_lost_node_as_the_reason(cluster):
    job = cluster.running_job()
    wait_for(lambda: len(cluster.places(job)) == 8, what="all pods are ready")
    before, joined = wait_pods(job, 9), [node.num_joined() for node in cluster.nodes]
    cluster.appliance.kill_management()
    cluster.start_management(SHORT_GRACE)
    for node, times in zip(cluster.nodes, joined, strict=True):
        node.wait_joined(times + 1)
    assert pods_of(job) == before
    assert cluster.status(job) == cluster_pb2.JOB_STATUS_IN_PROGRESS
    with come_back(cluster.second):
        cluster.second.kill()
        message = cluster.wait_failed(job)
        assert f"[{job}-chief-1]" in message or f"[{job}-activation-1]" in message
        assert "its node 'csx-1' was lost: its agent has not been heard of for 10 s" in message
        wait_for(lambda: set(cluster.places(job).values()) == {"csx-1"})
    cluster.assert_nothing_left(job)


def test_nothing_runs_of_a_gang_that_one_node_refuses(cluster):
    """The second node does not see the volume with the jobs' work directories."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a node without the shared volume needs root and unshare")
    jobs = cluster.appliance.data_dir / "jobs"
    jobs.mkdir(exist_ok=True)
    cluster.second.end()
    hidden = f'mount -t tmpfs none "{jobs}" && exec "$@"'
    blind = cluster.node(
        "csx-2", 5, "activation", prefix=("unshare", "--mount", "sh", "-c", hidden, "sh")
    )
    with come_back(cluster.second), joined_nodes(blind):
        job = cluster.appliance.submit_execute(2)
        message = cluster.wait_failed(job)
        assert "-chief-1 is not there, or may not be written" in message
        assert "node 'csx-2' refuses" in message
        cluster.assert_nothing_left(job)
        assert not list((jobs / job).glob("logs/*"))


def test_a_silent_node_delays_its_own_jobs_alone(cluster):
    num_joined = cluster.first.num_joined()
    with paused(cluster.first):
        silent = cluster.appliance.submit_execute(1)
        other = cluster.running_job(num_systems=1)
        cluster.cancel(other)
        cluster.assert_nothing_left(other)
        message = cluster.wait_failed(silent)
        assert f"job {silent} was not launched" in message.lower()
        assert "node 'csx-0' refuses" in message
        assert cluster.entered(other, "RUNNING") < cluster.entered(silent, "FAILED")
    cluster.first.wait_joined(num_joined + 1)
    cluster.assert_nothing_left(silent)


@contextlib.contextmanager
def paused(node):
    """Have a node say nothing for a while, and keep its connections."""
    node.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        node.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def come_back(node):
    """Have a node join again at the end."""
    try:
        yield
    finally:
        num_joined = node.num_joined()
        node.start()
        node.wait_joined(num_joined + 1)


def test_a_node_without_a_token_does_not_join(cluster, tmp_path):
    stranger = tmp_path / "token"
    parts = cluster.token.read_text().strip().split(".")
    stranger.write_text(".".join([*parts[:2], "0" * 64, parts[3]]))
    other = tmp_path / "other"
    other.write_text(".".join([*parts[:3], "0" * 64]))
    nodes = [
        NodeProcess(
            path.name,
            "127.0.0.9",
            ("worker",),
            join=f"127.0.0.1:{cluster.node_port}",
            token=path,
            directory=tmp_path / "logs",
            program=(NAME, *words_of(FAKES)),
        )
        for path in (stranger, other)
        if (tmp_path / "logs").mkdir(exist_ok=True) is None
    ]
    try:
        wait_for(lambda: "does not know the key" in nodes[0].log(), seconds=300)
        wait_for(lambda: "it is not the one that is meant" in nodes[1].log(), seconds=300)
    finally:
        for node in nodes:
            node.end()
            assert node.num_joined() == 0


def test_a_second_node_of_a_name_is_turned_away(cluster, tmp_path):
    twin = NodeProcess(
        "csx-0",
        "127.0.0.9",
        ("activation",),
        join=f"127.0.0.1:{cluster.node_port}",
        token=cluster.token,
        directory=tmp_path,
        program=(NAME, *words_of(FAKES)),
    )
    try:
        wait_for(lambda: "is there already, at 127.0.0.3" in twin.log(), seconds=300)
    finally:
        twin.end()
    assert twin.num_joined() == 0
    root = twin.runtime_root
    assert not [*root.parent.glob(f"{root.name}*")]
