"""Transcripts: what a user types and what csctl prints, as text.

A file has lines `$ csctl ...`, each followed by what the command prints to standard output, then to
standard error, and by `[exit N]` unless it succeeds. To change what csctl prints, run with
`CSCTL_WRITE_TRANSCRIPTS=1` and read the difference.
"""

import os
from pathlib import Path

import pytest

from appliance.core.sparsity.masked_weights import MaskedWeights
from appliance.wire.job_times import masked_weight_properties
from csctl.command_line.version import csctl_version
from protos.csctl import resources_pb2
from protos.csctl.resources_pb2 import Job, NodeInfo
from tests.conformance.csctl.conftest import Shell
from tests.support.csctl import Cluster, add_pods, make_job

_TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
_PROMPT = "$ csctl "


@pytest.mark.parametrize("path", _TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, shell: Shell) -> None:
    fill(shell.cluster)
    lines = [line for line in path.read_text().splitlines() if line.startswith(_PROMPT)]
    assert lines, f"{path.name} has no line that starts with '{_PROMPT}'"

    got = "\n\n".join(f"{line}\n{_answer(shell, line)}" for line in lines) + "\n"

    if os.environ.get("CSCTL_WRITE_TRANSCRIPTS"):
        path.write_text(got)
    assert got == path.read_text()


def _answer(shell: Shell, line: str) -> str:
    answer = shell.run(line.removeprefix(_PROMPT))
    text = answer.out + answer.err + (f"[exit {answer.code}]" if answer.code else "")
    text = text.replace(str(shell.config), "/home/alice/config_v2")
    text = text.replace(f"localhost:{shell.port}", "localhost:9000")
    return text.replace(csctl_version(), "VERSION").rstrip("\n")


def fill(cluster: Cluster) -> None:
    """Give the cluster a small queue, two systems and a few nodes."""
    cluster.jobs = [_running_job(), _compile_job(), _queued_job(), _failed_job()]
    cluster.others = {
        "cluster": resources_pb2.NodeInfoList(items=[*_systems(), *_nodes()]),
        "system": resources_pb2.NodeInfoList(items=_systems()),
        "node": resources_pb2.NodeInfoList(items=_nodes()),
        "nodegroups": resources_pb2.NodeGroupList(items=[_node_group()]),
        "volumes": _volumes(),
        "version": resources_pb2.VersionInfo(
            cluster_server="1.14.0", job_operator="1.14.0", cbcore="2.10.0"
        ),
    }


def _running_job() -> Job:
    job = make_job(
        "wsjob-train",
        priority="P1 (150)",
        age=7500,
        started_ago=7300,
        systems=("system0", "system1"),
        labels={"model": "gpt", "team": "nlp"},
        dashboard="http://localhost:8000/jobs/wsjob-train",
    )
    for role, count in (("coordinator", 1), ("weight", 1), ("broadcastreduce", 1), ("chief", 2)):
        add_pods(job, role, count, node="node0")
    job.meta.properties.update(masked_weight_properties(_MASKED))
    return job


_MASKED = MaskedWeights(
    num_masked=48,
    num_sparse=46,
    num_elements=100_663_296,
    num_nonzeros=10_066_330,
    broadcast_bytes=52_000_000,
    dense_broadcast_bytes=400_000_000,
    simulated_step_seconds=0.001,
    simulated_dense_step_seconds=0.0025,
    dense_because={"the program changes its mask": 2},
)


def _compile_job() -> Job:
    return make_job("wsjob-compile", job_type="compile", age=192, started_ago=5, user="bob")


def _queued_job() -> Job:
    job = make_job("wsjob-wait", phase="QUEUED", age=273_600, workflow="wflow-b")
    pending = job.status.lock.job_pending_status
    pending.pending_reason = "waits for 2 systems; 0 of 2 are free"
    pending.blocking_jobs["wsjob-train"].granted = True
    return job


def _failed_job() -> Job:
    job = make_job("wsjob-lost", phase="FAILED", age=90_000, started_ago=80_000, ended_ago=79_808)
    job.status.conditions.add(type="FAILED", message="pod wsjob-lost-chief-0 exited with code 137")
    job.status.error_replicas.add(
        name="wsjob-lost-chief-0", node="node0", exit_code=137, message="killed, out of memory"
    )
    return job


def _systems() -> list[NodeInfo]:
    busy = NodeInfo(
        role="system", wse_in_use=True, state="ok", session="job-operator", platform_version="2.10"
    )
    busy.meta.name = "system0"
    busy.job_ids.append("wsjob-train")
    busy.job_labels.extend(["model=gpt", "team=nlp"])
    idle = NodeInfo(role="system", state="error", notes="port n05 is down", session="job-operator")
    idle.meta.name = "system1"
    return [busy, idle]


def _nodes() -> list[NodeInfo]:
    node = NodeInfo(
        role="memory",
        cpu_load_percentage=22.17,
        memory_use_percentage=14.2,
        state="ok",
        session="job-operator",
        cpu_capacity_cores=64,
        memory_capacity="128Gi",
        hostname="node0.local",
    )
    node.meta.name = "node0"
    node.job_ids.extend(["wsjob-train", "wsjob-compile"])
    return [node]


def _node_group() -> resources_pb2.NodeGroup:
    group = resources_pb2.NodeGroup()
    group.meta.name = "nodegroup0"
    group.status.namespace, group.status.running_job = "job-operator", "wsjob-train"
    memory, worker = group.status.role_status["memory"], group.status.role_status["worker"]
    memory.count, memory.cpu_allocatable_cores, memory.memory_allocatable = 2, 63.5, "120Gi"
    memory.cpu_capacity_cores, memory.memory_capacity = 64, "128Gi"
    memory.names.extend(["node0", "node1"])
    worker.count, worker.cpu_allocatable_cores, worker.memory_allocatable = 1, 32, "60Gi"
    return group


def _volumes() -> resources_pb2.VolumeList:
    nfs = resources_pb2.Volume()
    nfs.meta.name = "training-data-volume"
    nfs.nfs.server, nfs.nfs.server_path, nfs.nfs.container_path = "10.10.10.10", "/ml", "/ml"
    local = resources_pb2.Volume()
    local.meta.name = "scratch"
    local.host_path.container_path = "/scratch"
    return resources_pb2.VolumeList(items=[nfs, local])
