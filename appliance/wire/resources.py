"""Jobs, systems, nodes and volumes, as csctl's resources; and the tables csctl prints."""

import datetime as dt
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import EventRecord, JobRecord, PodRecord
from appliance.core.cluster.systems import Node, NodeGroup, System, SystemState
from appliance.core.queries.job_filter import JobLine
from appliance.wire.job_times import time_properties
from protos.csctl import generic_pb2
from protos.csctl import resources_pb2 as pb

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_SECONDS = 86_400
_PHASES = {phase: pb.JobStatus.Phase.Value(phase.value) for phase in Phase}

JOB_COLUMNS = (
    "SESSION",
    "NAME",
    "TYPE",
    "PRIORITY",
    "AGE",
    "DURATION",
    "PHASE",
    "SYSTEMS",
    "USER",
    "LABELS",
    "WORKFLOW",
    "DASHBOARD",
)
"""What `csctl get jobs` shows."""

NODE_COLUMNS = (
    "NAME",
    "TYPE",
    "CPU",
    "MEM",
    "SYSTEM-IN-USE",
    "JOBID",
    "JOBLABELS",
    "STATE",
    "NOTES",
)
"""What `csctl get cluster` shows."""


VOLUME_COLUMNS = ("NAME", "TYPE", "CONTAINERPATH", "SERVER", "SERVERPATH", "READONLY")
"""What `csctl get volumes` shows."""

NODE_GROUP_COLUMNS = ("NAME", "SESSION", "NODES", "ROLES", "MEMORY")
"""What `csctl get nodegroups` shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoad:
    """How busy a node is, as percentages of all cores and all memory."""

    cpu_percent: float
    memory_percent: float


def job(
    record: JobRecord | JobLine,
    *,
    pods: Iterable[PodRecord] = (),
    events: Iterable[EventRecord] = (),
    dashboard: str = "",
    namespace: str = "",
    pending: pb.JobPendingStatus | None = None,
    readings: Mapping[str, str] = MappingProxyType({}),
) -> pb.Job:
    """Return a job as a resource; its readings become properties.

    So does its Kubernetes namespace: `meta.namespace` is its session.

    Its parts are written in place: to make them first would copy each once more, for hundreds of
    jobs of a list.
    """
    pods = list(pods)
    found = pb.Job()
    times = time_properties(pods) if pods else {}
    named = {
        "dashboard": dashboard,
        "namespace": namespace,
        "client_release": record.client_release,
        "message": record.message,
        "detail": record.detail if isinstance(record, JobRecord) and events else "",
    }
    _describe(found.meta, record, {**named, **times, **readings})
    spec, user = found.spec, record.user
    spec.user.uid, spec.user.gid, spec.user.username = user.uid, user.gid, user.name
    spec.type = record.type.value
    spec.priority = priority_text(record.priority)
    spec.clientWorkdir = record.client_workdir
    status = found.status
    status.phase = _PHASES[record.phase]
    status.systems.extend(record.systems)
    _set_time(status.execution_time, record.started_at)
    _set_time(status.completion_time, record.ended_at)
    status.conditions.extend(_condition(event) for event in events if event.phase is not None)
    if pods:
        status.replicas.extend(_replicas(pods))
        status.error_replicas.extend(_error_replica(pod) for pod in pods if pod.exit_code)
    if pending is not None:
        status.lock.job_pending_status.CopyFrom(pending)
    return found


def _describe(
    meta: pb.ObjectMeta, record: JobRecord | JobLine, properties: Mapping[str, str]
) -> None:
    meta.type, meta.name = "job", record.id
    meta.namespace, meta.workflow = record.session, record.workflow
    _set_time(meta.create_time, record.created_at)
    for key, value in record.labels.items():
        meta.labels[key] = value
    for key, value in properties.items():
        if value:
            meta.properties[key] = value


def system(record: System, holder: JobRecord | None, *, platform_version: str = "") -> pb.NodeInfo:
    """Return a system as a resource."""
    info = pb.NodeInfo(
        meta=pb.ObjectMeta(type="system", name=record.name),
        role="system",
        wse_in_use=holder is not None,
        state=_state(record),
        notes=record.notes,
        platform_version=platform_version,
    )
    if holder is not None:
        _set_holders(info, [holder])
        info.session = holder.session
    return info


def _state(record: System) -> str:
    if not record.is_healthy:
        return "error"
    return "ok" if record.state is SystemState.UP else record.state.value


def node(record: Node, load: NodeLoad, holders: Sequence[JobRecord]) -> pb.NodeInfo:
    """Return a CPU node as a resource."""
    info = pb.NodeInfo(
        meta=pb.ObjectMeta(type="node", name=record.name),
        role=",".join(record.roles),
        cpu_load_percentage=load.cpu_percent,
        memory_use_percentage=load.memory_percent,
        state="ok",
        cpu_capacity_cores=record.num_cores,
        cpu_allocatable_cores=record.num_cores,
        memory_capacity=_mebibytes(record.memory_bytes),
        memory_allocatable=_mebibytes(record.memory_bytes),
        hostname=record.name,
    )
    _set_holders(info, holders)
    return info


def node_group(record: NodeGroup, holder: JobRecord | None) -> pb.NodeGroup:
    """Return a MemoryX node group as a resource."""
    role = pb.NodeGroupRoleStatus(
        count=record.num_nodes,
        cpu_allocatable_cores=record.num_cores,
        cpu_capacity_cores=record.num_cores,
        memory_allocatable=_mebibytes(record.memory_bytes),
        memory_capacity=_mebibytes(record.memory_bytes),
        names=[f"{record.name}-memory-{index}" for index in range(record.num_nodes)],
    )
    return pb.NodeGroup(
        meta=pb.ObjectMeta(
            type="nodegroup", name=record.name, properties={"kind": record.kind.name.lower()}
        ),
        status=pb.NodeGroupStatus(
            node_count=record.num_nodes,
            namespace=holder.session if holder else "",
            running_job=holder.id if holder else "",
            role_status={"memory": role},
        ),
    )


def root_volumes(server: str, *, is_one_machine: bool) -> Sequence[pb.Volume]:
    """Return the volumes of an appliance that sees the user's own file system.

    The client copies its environment of gigabytes to a volume on the host's path, unless it lies on
    an NFS volume that comes first. To mount directories it prefers the host's path, and believes no
    NFS volume whose server is not among its own mounts.

    Args:
        server: The node whose file system it is.
        is_one_machine: Whether users work on that node.
    """
    shared = pb.Volume(
        meta=pb.ObjectMeta(type="volume", name="host-root", labels={"allow-venv": "true"}),
        nfs=pb.Volume.NFSVolume(server=server, server_path="/", container_path="/"),
    )
    local = pb.Volume(
        meta=pb.ObjectMeta(type="volume", name="host-path"),
        host_path=pb.Volume.HostPathVolume(container_path="/"),
    )
    return (shared, local) if is_one_machine else (shared,)


def job_row(record: JobRecord | JobLine, *, now: dt.datetime, dashboard: str = "") -> list[str]:
    """Return a job's cells in `JOB_COLUMNS`."""
    end = record.ended_at or now
    return [
        record.session,
        record.id,
        record.type.value,
        priority_text(record.priority),
        duration_text(now - record.created_at),
        duration_text(end - record.started_at) if record.started_at else "",
        record.phase.value,
        _systems_text(record),
        record.user.name,
        ",".join(f"{key}={value}" for key, value in sorted(record.labels.items())),
        record.workflow,
        dashboard,
    ]


def node_row(info: pb.NodeInfo) -> list[str]:
    """Return a node's or system's cells in `NODE_COLUMNS`."""
    is_system = info.role == "system"
    in_use = ("InUse" if info.wse_in_use else "Idle") if is_system else "n/a"
    return [
        info.meta.name,
        info.role,
        "n/a" if is_system else f"{info.cpu_load_percentage:.2f}%",
        "n/a" if is_system else f"{info.memory_use_percentage:.2f}%",
        in_use,
        ",".join(info.job_ids),
        ",".join(info.job_labels),
        info.state,
        info.notes,
    ]


def volume_row(volume: pb.Volume) -> list[str]:
    """Return a volume's cells in `VOLUME_COLUMNS`."""
    nfs = volume.nfs
    if volume.WhichOneof("volumeSource") != "nfs":
        return [volume.meta.name, "hostpath", volume.host_path.container_path, "n/a", "n/a", "n/a"]
    is_read_only = str(nfs.readonly).lower()
    return [
        volume.meta.name,
        "nfs",
        nfs.container_path,
        nfs.server,
        nfs.server_path,
        is_read_only,
    ]


def node_group_row(group: pb.NodeGroup) -> list[str]:
    """Return a node group's cells in `NODE_GROUP_COLUMNS`."""
    roles = sorted(group.status.role_status)
    memory = group.status.role_status[roles[0]].memory_allocatable if roles else ""
    return [
        group.meta.name,
        group.status.namespace,
        str(group.status.node_count),
        ",".join(roles),
        memory,
    ]


def scalar_rows(message: Message) -> list[list[str]]:
    """Return the scalar fields of a message, one row each."""
    return [
        [field.name, str(value)]
        for field, value in message.ListFields()
        if field.message_type is None
    ]


def table(columns: Iterable[str], rows: Iterable[Sequence[str]]) -> generic_pb2.Table:
    """Return a table ready to print."""
    return generic_pb2.Table(
        columns=[generic_pb2.ColumnDefinition(name=name) for name in columns],
        rows=[generic_pb2.RowData(cells=row) for row in rows],
    )


def priority_text(priority: int) -> str:
    """Return a priority as csctl shows it, as in `P2 (299)`."""
    return f"P{priority // 100} ({priority})"


def duration_text(duration: dt.timedelta) -> str:
    """Return a duration in its two largest units, as in `2h5m`."""
    seconds = max(int(duration.total_seconds()), 0)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def _systems_text(record: JobRecord | JobLine) -> str:
    if record.systems:
        return ",".join(record.systems)
    return f"({record.num_systems})" if record.num_systems else ""


def _replicas(pods: Iterable[PodRecord]) -> list[pb.JobStatus.ReplicaGroup]:
    groups = itertools.groupby(pods, key=lambda pod: pod.role)
    return [
        pb.JobStatus.ReplicaGroup(
            type=role.value,
            instances=[
                pb.JobStatus.ReplicaInstance(name=pod.name, node=pod.node, phase=pod.phase)
                for pod in members
            ],
        )
        for role, members in groups
    ]


def _error_replica(pod: PodRecord) -> pb.JobStatus.ReplicaErrorStatus:
    return pb.JobStatus.ReplicaErrorStatus(
        name=pod.name,
        node=pod.node,
        container=pod.role.value,
        message=pod.message,
        exit_code=pod.exit_code or 0,
        exit_time=_timestamp(pod.ended_at),
    )


def _condition(event: EventRecord) -> pb.JobStatus.Condition:
    assert event.phase is not None
    return pb.JobStatus.Condition(
        type=_words(event.phase), last_transition_time=_timestamp(event.at), message=event.message
    )


def _words(phase: Phase) -> str:
    return phase.value.capitalize()


def _set_holders(info: pb.NodeInfo, holders: Sequence[JobRecord]) -> None:
    info.job_ids.extend(holder.id for holder in holders)
    info.job_id = ",".join(info.job_ids)
    labels = {f"{key}={value}" for holder in holders for key, value in holder.labels.items()}
    info.job_labels.extend(sorted(labels))


def _mebibytes(num_bytes: int) -> str:
    return f"{num_bytes >> 20}Mi"


def _timestamp(time: dt.datetime | None) -> Timestamp | None:
    if time is None:
        return None
    stamp = Timestamp()
    _set_time(stamp, time)
    return stamp


def _set_time(stamp: Timestamp, time: dt.datetime | None) -> None:
    """Set a time, if there is one; protobuf's own way takes several times as long."""
    if time is not None:
        since = time - _EPOCH
        stamp.seconds = since.days * _DAY_SECONDS + since.seconds
        stamp.nanos = since.microseconds * 1000
