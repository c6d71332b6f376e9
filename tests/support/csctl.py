"""A small cluster for csctl's tests: builders of its objects and a CsCtlV1 server that holds them.

The server does what csctl relies on and no more: it filters as `GetOptions` says, applies merge
patches, cancels and re-prioritises. It keeps the metadata of the last call.
"""

import base64
import datetime as dt
import json
from collections.abc import Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from protos.csctl import api_pb2, resources_pb2
from protos.csctl.api_pb2_grpc import CsCtlV1Servicer, add_CsCtlV1Servicer_to_server
from protos.csctl.resources_pb2 import Job, JobStatus

NOW = dt.datetime(2026, 3, 4, 12, 0, 0, tzinfo=dt.UTC)
SESSION = "job-operator"
AUTHORITY = "cluster-server.cerebrassc.local"

_FINISHED = {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED}


class FixedClock:
    """A clock that stands still at NOW."""

    def now(self) -> dt.datetime:
        return NOW

    def monotonic_seconds(self) -> float:
        return 0.0


def make_job(
    name: str,
    *,
    phase: str = "RUNNING",
    job_type: str = "execute",
    priority: str = "P2 (299)",
    age: float = 3600.0,
    started_ago: float | None = None,
    ended_ago: float | None = None,
    systems: tuple[str, ...] = (),
    user: str = "alice",
    uid: int = 60_001,
    labels: Mapping[str, str] | None = None,
    workflow: str = "wflow-a",
    dashboard: str = "",
    session: str = SESSION,
) -> Job:
    """Return a job `age` seconds old at NOW, with no pods."""
    job = Job()
    job.meta.type, job.meta.name = "job", name
    job.meta.namespace, job.meta.workflow = session, workflow
    job.meta.create_time.FromDatetime(NOW - dt.timedelta(seconds=age))
    job.meta.labels.update(labels or {})
    if dashboard:
        job.meta.properties["dashboard"] = dashboard
    job.spec.type, job.spec.priority = job_type, priority
    job.spec.user.uid, job.spec.user.gid, job.spec.user.username = uid, uid, user
    job.status.phase = JobStatus.Phase.Value(phase)
    job.status.systems.extend(systems)
    if started_ago is not None:
        job.status.execution_time.FromDatetime(NOW - dt.timedelta(seconds=started_ago))
    if ended_ago is not None:
        job.status.completion_time.FromDatetime(NOW - dt.timedelta(seconds=ended_ago))
    return job


def add_pods(job: Job, role: str, count: int, *, node: str = "n0", phase: str = "Running") -> None:
    """Give the job `count` pods of a role."""
    group = job.status.replicas.add(type=role)
    for index in range(count):
        group.instances.add(name=f"{job.meta.name}-{role}-{index}", node=node, phase=phase)


@dataclass
class Cluster:
    """What the server holds; tests fill it in and look at it afterwards.

    Attributes:
        jobs: In the order that the server lists them.
        others: Answers of the other types, by type.
        failure: Answer every call with this status and text.
        last_metadata: Metadata of the last call.
        last_get: The last Get request.
    """

    jobs: list[Job] = field(default_factory=list)
    others: dict[str, Message] = field(default_factory=dict)
    failure: tuple[grpc.StatusCode, str] | None = None
    last_metadata: dict[str, str] = field(default_factory=dict)
    last_get: api_pb2.GetRequest = field(default_factory=api_pb2.GetRequest)


class CsCtlFake(CsCtlV1Servicer):
    """The service over a `Cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def Get(self, request, context):
        self._begin(context)
        self._cluster.last_get = request
        answer = self._answer(request, context)
        return api_pb2.GetResponse(
            type=request.type,
            content_type=api_pb2.PROTOBUF_METHOD,
            raw=answer.SerializeToString(),
        )

    def Patch(self, request, context):
        self._begin(context)
        assert request.patch_type == api_pb2.PatchRequest.MERGE
        job = self._job(request.name, context)
        for key, value in json.loads(request.body)["meta"]["labels"].items():
            if value is None:
                job.meta.labels.pop(key, None)
            else:
                job.meta.labels[key] = value
        return api_pb2.PatchResponse(
            type="job", content_type=api_pb2.PROTOBUF_METHOD, raw=job.SerializeToString()
        )

    def CancelJobV2(self, request, context):
        self._begin(context)
        job = self._job(request.job_id, context)
        if job.status.phase in _FINISHED:
            phase = JobStatus.Phase.Name(job.status.phase)
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, f"Job '{request.job_id}' is already {phase}."
            )
        job.status.phase = JobStatus.CANCELLED
        job.status.completion_time.FromDatetime(NOW)
        return api_pb2.CancelJobResponse()

    def UpdateJobPriority(self, request, context):
        self._begin(context)
        self._job(request.job_id, context).spec.priority = request.job_priority
        return api_pb2.UpdateJobPriorityResponse()

    def ListResourceTypes(self, request, context):
        self._begin(context)
        names = ("job", "cluster", "system", "node", "nodegroup", "volume", "version")
        return api_pb2.ListResourceTypesResponse(
            items=[api_pb2.ResourceType(name=name) for name in names]
        )

    def _begin(self, context: grpc.ServicerContext) -> None:
        self._cluster.last_metadata = {
            key: value for key, value in context.invocation_metadata() if isinstance(value, str)
        }
        if self._cluster.failure:
            context.abort(*self._cluster.failure)

    def _answer(self, request: api_pb2.GetRequest, context: grpc.ServicerContext) -> Message:
        if request.type == "job":
            return self._job(request.name, context)
        if request.type == "jobs":
            wanted = [job for job in self._cluster.jobs if self._is_wanted(job, request.options)]
            return resources_pb2.JobList(items=wanted[: request.options.limit or None])
        return self._cluster.others[request.type]

    def _is_wanted(self, job: Job, options: api_pb2.GetOptions) -> bool:
        mine = int(self._cluster.last_metadata["auth-uid"])
        return (
            options.namespace in ("", job.meta.namespace)
            and (options.all_states or job.status.phase not in _FINISHED)
            and (not options.workflow_id or job.meta.workflow == options.workflow_id)
            and (not options.current_user_only or job.spec.user.uid == mine)
            and all(job.meta.labels.get(k) == v for k, v in options.label_filters.items())
        )

    def _job(self, name: str, context: grpc.ServicerContext) -> Job:
        for job in self._cluster.jobs:
            if job.meta.name == name:
                return job
        context.abort(
            grpc.StatusCode.NOT_FOUND,
            f"Job '{name}' does not exist. List jobs with `csctl get jobs -a`.",
        )
        raise AssertionError("abort raises")


@contextmanager
def serve(cluster: Cluster, *, tls: "tuple[bytes, bytes] | None" = None) -> Iterator[int]:
    """Serve the cluster on a free loopback port, and yield the port.

    Args:
        cluster: What to serve.
        tls: Private key and certificate, both PEM; None serves plain text.
    """
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    add_CsCtlV1Servicer_to_server(CsCtlFake(cluster), server)
    if tls is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        credentials = grpc.ssl_server_credentials([tls])
        port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield port
    finally:
        server.stop(grace=None).wait()


def config_document(
    server: str,
    *,
    certificate: bytes | None = None,
    sessions: tuple[str, ...] = (SESSION,),
) -> dict[str, Any]:
    """Return a config_v2 for one cluster; without a certificate it has no sessions."""
    namespaces = []
    if certificate is not None:
        data = base64.b64encode(certificate).decode()
        namespaces = [{"name": name, "certificateAuthorityData": data} for name in sessions]
    cluster = {
        "name": "wsc",
        "server": server,
        "authority": AUTHORITY,
        "fabricType": "cs3",
        "namespaces": namespaces,
    }
    return {
        "currentContext": "wsc",
        "contexts": [{"name": "wsc", "cluster": "wsc"}],
        "clusters": [cluster],
    }


def write_config(path: Path, document: Mapping[str, Any]) -> Path:
    """Write the config and return its path."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
