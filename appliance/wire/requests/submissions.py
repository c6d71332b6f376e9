"""What the client's job requests ask for."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.notifications import Target
from appliance.core.cluster.records import DEFAULT_PRIORITY, MAX_LABELS, MAX_PRIORITY
from appliance.core.cluster.requirements import GroupKind
from appliance.core.errors import UserError
from appliance.core.ids import ARRAY_LABEL, INDEX_LABEL, Role
from appliance.core.integers import MAX_SECONDS, find_integer
from appliance.core.plans.shard_count import MAX_SHARDS
from appliance.core.quick_init import quick_init
from appliance.wire.requests.cluster_details import task_memory
from appliance.wire.requests.executions import chosen_execution
from appliance.wire.requests.notifications import read_targets
from protos.appliance.common_config_pb2 import ClusterDetails, DebugArgs, JobMode
from protos.cluster.cluster_pb2 import CompileJobRequest, ExecuteJobRequest

LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
"""A label's key, and its value."""

_Task = ClusterDetails.TaskInfo
_RESOURCES = {
    "compile": "compile_coord_resource",
    "execute": "execute_coord_resource",
    "activation": "activation_resource",
    "broadcastreduce": "broadcastreduce_resource",
    "chief": "chief_resource",
    "worker": "worker_resource",
}
_EXECUTE_PODS = tuple(kind for kind in _RESOURCES if kind != "compile")
_GROUP_KINDS = {
    DebugArgs.DebugMGR.POPULATED_GROUP_TYPE_LARGE: GroupKind.LARGE,
    DebugArgs.DebugMGR.POPULATED_GROUP_TYPE_XLARGE: GroupKind.XLARGE,
}
_SMALLEST = GroupKind.REGULAR
_BUCKETS = {
    DebugArgs.DebugMGR.JOB_PRIORITY_P0: 99,
    DebugArgs.DebugMGR.JOB_PRIORITY_P1: 199,
    DebugArgs.DebugMGR.JOB_PRIORITY_P2: 299,
    DebugArgs.DebugMGR.JOB_PRIORITY_P3: 399,
}


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job request, reduced to what the queue needs.

    Attributes:
        type: Any type but a driver.
        workflow: The workflow it names; may be empty.
        num_systems: Whole systems it needs; 0 for a compile job.
        workers_per_system: Input workers for each system; 0 for a compile job.
        num_shards: Weight pods; 1 where the request says nothing.
        priority: From 0 to `MAX_PRIORITY`; lower goes first.
        labels: The user's tags.
        client_workdir: Where the client runs.
        compile_dir: Where compile artifacts go, relative to the cluster's compile directory.
        request: The whole request, serialised; pods read the rest from it.
        pod_memory_bytes: Memory that the request gives to kinds of pods; a kind that is missing has
            the cluster's default, and 0 is without limit.
        planned_memory: Memory that the plan needs for one pod of each role, beyond that of a pod
            without a program; empty if unknown.
        num_node_groups: MemoryX node groups that it names; 0 leaves it to the cluster.
        group_kind: The smallest kind of node group that will do.
        session: The session that it names; may be empty.
        artifact_dir: For an execute job, where its compile left the artifacts; may be empty.
        limit_seconds: It is ended after so long; None sets no limit.
        is_preemptible: Whether it may be stopped for a higher priority and queued again.
        notifications: Who is told what becomes of it.
    """

    type: JobType
    workflow: str
    num_systems: int
    workers_per_system: int
    priority: int
    labels: Mapping[str, str]
    client_workdir: str
    compile_dir: str
    request: bytes
    num_shards: int = 1
    pod_memory_bytes: Mapping[str, int] = field(default_factory=dict)
    planned_memory: Mapping[Role, int] = field(default_factory=dict)
    num_node_groups: int = 0
    group_kind: GroupKind = GroupKind.REGULAR
    session: str = ""
    artifact_dir: str = ""
    limit_seconds: float | None = None
    is_preemptible: bool = False
    notifications: Sequence[Target] = ()


def named_workflow(by_request: str, by_metadata: str) -> str:
    """Return the workflow that a new job is to belong to; empty if it names none."""
    return by_request or by_metadata


def compile_submission(request: CompileJobRequest) -> Submission:
    """Read a compile request.

    Raises:
        UserError: A label or the priority is not valid.
    """
    check_job_mode(request.job_mode, JobMode.COMPILE, "InitCompileJob")
    return Submission(
        type=JobType.COMPILE,
        workflow=request.debug_args.debug_mgr.workflow_id,
        num_systems=0,
        workers_per_system=0,
        priority=requested_priority(request.debug_args),
        labels=check_job_labels(request.debug_args.debug_mgr.labels),
        client_workdir=request.client_workdir,
        compile_dir=request.compile_dir_relative_path,
        request=request.SerializeToString(deterministic=True),
        pod_memory_bytes=_pod_memory(request.debug_args, ("compile",)),
        notifications=read_targets(request.user_notifications),
        **scheduler_hints(request.debug_args),
    )


def execute_submission(request: ExecuteJobRequest) -> Submission:
    """Read an execute request.

    Raises:
        UserError: It names no system or too many weight pods, or a label or the priority is not
            valid.
    """
    check_job_mode(request.job_mode, JobMode.EXECUTE, "InitExecuteJob")
    details = request.job_mode.cluster_details
    num_systems = count_tasks(details, _Task.WSE)
    if num_systems == 0:
        raise UserError(
            "The execute request has 0 WSE tasks; at least 1 is needed.",
            hint="Send the cluster_details of the compile response.",
        )
    num_workers = max(count_tasks(details, _Task.WRK), 1)
    num_shards = max(count_tasks(details, _Task.WGT), 1)
    if num_shards > MAX_SHARDS:
        raise UserError(
            f"The execute request has {num_shards} WGT tasks; {MAX_SHARDS} are the most.",
            hint="Send the cluster_details of the compile response.",
        )
    return Submission(
        type=JobType.EXECUTE,
        workflow=request.debug_args.debug_mgr.workflow_id,
        num_systems=num_systems,
        workers_per_system=-(-num_workers // num_systems),
        num_shards=num_shards,
        priority=requested_priority(request.debug_args),
        labels=check_job_labels(request.debug_args.debug_mgr.labels),
        client_workdir=request.client_workdir,
        compile_dir=request.compile_dir_relative_path,
        request=request.SerializeToString(deterministic=True),
        pod_memory_bytes=_pod_memory(request.debug_args, _EXECUTE_PODS),
        planned_memory=task_memory(details),
        num_node_groups=max(request.debug_args.debug_mgr.num_populated_nodegroups, 0),
        group_kind=_group_kind(request.debug_args),
        artifact_dir=request.compile_artifact_dir,
        notifications=read_targets(request.user_notifications),
        **scheduler_hints(request.debug_args),
    )


def count_tasks(details: ClusterDetails, kind: "_Task.TaskType.ValueType") -> int:
    """Return how many tasks of a kind are wanted."""
    return sum(len(task.task_map) for task in details.tasks if task.task_type == kind)


def check_job_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a job is to have from its user, or that are to change.

    Raises:
        UserError: There are too many, one is the appliance's own, or see `check_labels`.
    """
    if len(labels) > MAX_LABELS:
        raise UserError(
            f"A job has at most {MAX_LABELS} labels; this request has {len(labels)}.",
            hint="Leave some out.",
        )
    if taken := {ARRAY_LABEL, INDEX_LABEL}.intersection(labels):
        raise UserError(
            f"Label '{min(taken)}' is the appliance's own: it shows which run of an array a job "
            "is.",
            hint="Choose another name for yours.",
        )
    return check_labels(labels)


def check_label_changes(changes: Mapping[str, str | None]) -> None:
    """Raise `UserError` as `check_job_labels` does; None as a value removes a label."""
    check_job_labels({key: "x" if value is None else value for key, value in changes.items()})


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels that are all well formed, and mean something if they are ours.

    Raises:
        UserError: One is not, or does not; the message names it.
    """
    for key, value in labels.items():
        for part in (key, value) if value else (key,):  # a value may be empty
            if LABEL.fullmatch(part) is None:
                raise UserError(
                    f"Label {key}={value} is not valid: {part!r} is not 1 to 63 letters, digits, "
                    "'-', '_' or '.' that begin and end with a letter or digit.",
                    hint="Write labels as key=value.",
                )
    chosen_execution(labels, None)
    return dict(labels)


def parse_priority(text: str) -> int:
    """Return the priority value of a bucket (`p0` to `p3`) or of a number.

    Raises:
        UserError: It is neither.
    """
    word = text.strip().lower()
    if re.fullmatch(r"p[0-3]", word):
        return int(word[1]) * 100 + 99
    if (value := find_integer(word, MAX_PRIORITY)) is not None:
        return value
    raise UserError(
        f"{text[:80]!r} is no priority.",
        hint=f"Give p0, p1, p2, p3 or a number from 0 to {MAX_PRIORITY}.",
    )


class Hints(TypedDict):
    """What the user's scheduler hints say, named as in `Submission`."""

    session: str
    limit_seconds: float | None
    is_preemptible: bool


def scheduler_hints(arguments: DebugArgs) -> Hints:
    """Return what the user's scheduler hints say; others than ours are left alone."""
    hints = arguments.debug_mgr.scheduler_hints
    text = hints.get("job_time_sec", "")
    try:
        seconds = float(text) if text else None
    except ValueError:
        seconds = math.nan
    if seconds is not None and not 0 < seconds <= MAX_SECONDS:
        raise UserError(
            f"The scheduler hint job_time_sec is {text[:80]!r}; it is a number of seconds above 0 "
            f"and of at most {MAX_SECONDS:,.0f}."
        )
    return Hints(
        session=hints.get("session", ""),
        limit_seconds=seconds,
        is_preemptible=hints.get("preemptible", "").lower() in ("1", "true", "yes"),
    )


def _pod_memory(arguments: DebugArgs, kinds: Sequence[str]) -> dict[str, int]:
    """Return the memory that a request gives to kinds of pods; -1 there means without limit."""
    found = {kind: getattr(arguments.debug_usr, _RESOURCES[kind]).memory_bytes for kind in kinds}
    return {kind: max(amount, 0) for kind, amount in found.items() if amount}


def _group_kind(arguments: DebugArgs) -> GroupKind:
    """Return the largest of the kinds of node groups that a request names."""
    named = arguments.debug_mgr.populated_group_types
    return max((_GROUP_KINDS.get(kind, GroupKind.REGULAR) for kind in named), default=_SMALLEST)


def requested_priority(arguments: DebugArgs) -> int:
    """Return the priority value that a request asks for; raises `UserError` if it is none."""
    manager = arguments.debug_mgr
    if not manager.job_priority_value:
        return _BUCKETS.get(manager.job_priority, DEFAULT_PRIORITY)
    return parse_priority(str(manager.job_priority_value))


def check_job_mode(mode: JobMode, wanted: "JobMode.Job.ValueType", method: str) -> None:
    """Raise `UserError` if a request came by another method than that for its kind of job."""
    if mode.job != wanted:
        known = mode.job in JobMode.Job.values()
        raise UserError(
            f"{method} got a job of mode {JobMode.Job.Name(mode.job) if known else mode.job}; "
            "this appliance runs "
            f"{JobMode.Job.Name(wanted)} jobs with it."
        )
