"""Jobs as tables: the list, and one job's pods and failures."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from csctl.output.age import is_set, seconds_between, short_span
from csctl.output.runs.progress import progress_text
from csctl.output.table import NOT_APPLICABLE, Column
from protos.csctl.resources_pb2 import Job, JobStatus

# Keys of meta.properties.
_DASHBOARD = "dashboard"
_MESSAGE = "message"
DETAIL = "detail"
"""Property with the whole text of a failure."""

NAMESPACE = "namespace"
"""Of Kubernetes: a job's `meta.namespace` is its session."""

CLIENT_RELEASE = "client_release"
"""Release of the client that submitted it."""

_NUM_BUCKET_VALUES = 100

FINAL_PHASES = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED})
"""Phases that a job does not leave."""


def job_columns(now: dt.datetime) -> tuple[Column[Job], ...]:
    """Return the columns of `get jobs`; ages and durations count up to `now`."""
    return (
        Column(header="SESSION", cell=lambda job: job.meta.namespace),
        Column(header="NAME", cell=lambda job: job.meta.name),
        Column(header="TYPE", cell=lambda job: job.spec.type),
        Column(header="PRIORITY", cell=lambda job: priority_text(job.spec.priority)),
        Column(header="AGE", cell=lambda job: _age(job, now)),
        Column(header="DURATION", cell=lambda job: _duration(job, now)),
        Column(header="PHASE", cell=lambda job: JobStatus.Phase.Name(job.status.phase)),
        Column(header="SYSTEMS", cell=lambda job: ",".join(job.status.systems)),
        Column(header="USER", cell=_user),
        Column(header="LABELS", cell=lambda job: label_text(job.meta.labels)),
        Column(header="WORKFLOW", cell=lambda job: job.meta.workflow),
        Column(header="DASHBOARD", cell=lambda job: job.meta.properties.get(_DASHBOARD, "")),
        Column(
            header="PROGRESS",
            cell=lambda job: progress_text(job.meta.properties) or NOT_APPLICABLE,
            is_wide=True,
        ),
        Column(
            header="NAMESPACE",
            cell=lambda job: job.meta.properties.get(NAMESPACE, "") or NOT_APPLICABLE,
            is_wide=True,
        ),
        Column(
            header="CLIENT",
            cell=lambda job: job.meta.properties.get(CLIENT_RELEASE, "") or NOT_APPLICABLE,
            is_wide=True,
        ),
        Column(header="REASON", cell=reason, is_wide=True),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One row of a job's pods."""

    role: str
    name: str
    node: str
    phase: str


def pods_of(job: Job) -> Iterable[Pod]:
    """Yield the job's pods, role by role."""
    for group in job.status.replicas:
        for pod in group.instances:
            yield Pod(role=group.type, name=pod.name, node=pod.node, phase=pod.phase)


POD_COLUMNS: tuple[Column[Pod], ...] = (
    Column(header="ROLE", cell=lambda pod: pod.role),
    Column(header="POD", cell=lambda pod: pod.name),
    Column(header="NODE", cell=lambda pod: pod.node),
    Column(header="PHASE", cell=lambda pod: pod.phase),
)

FAILURE_COLUMNS: tuple[Column[JobStatus.ReplicaErrorStatus], ...] = (
    Column(header="FAILED-POD", cell=lambda failure: failure.name),
    Column(header="NODE", cell=lambda failure: failure.node),
    Column(header="EXIT-CODE", cell=lambda failure: str(failure.exit_code)),
    Column(header="MESSAGE", cell=lambda failure: failure.message),
)


def priority_text(priority: str) -> str:
    """Return bucket and value, `P2 (299)`, of a bare value; any other text as it came."""
    if not priority.isdecimal():
        return priority
    return f"P{int(priority) // _NUM_BUCKET_VALUES} ({priority})"


def label_text(labels: Mapping[str, str]) -> str:
    """Return `key=value` pairs by key, with commas between."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def reason(job: Job) -> str:
    """Return why the job is in its phase: what it waits for, or how it ended."""
    pending = job.status.lock.job_pending_status.pending_reason
    latest = job.status.conditions[-1].message if job.status.conditions else ""
    return pending or job.meta.properties.get(_MESSAGE, "") or latest


def _age(job: Job, now: dt.datetime) -> str:
    created = job.meta.create_time
    return short_span(seconds_between(created, now)) if is_set(created) else NOT_APPLICABLE


def _duration(job: Job, now: dt.datetime) -> str:
    """Return the time from the start of execution to its end, or to `now`.

    A job that never started reads `n/a` and not nothing: PHASE, the next column, must stay the same
    field for scripts that split on blanks.
    """
    started, completed = job.status.execution_time, job.status.completion_time
    if not is_set(started):
        return NOT_APPLICABLE
    end = completed.ToDatetime(tzinfo=dt.UTC) if is_set(completed) else now
    return short_span(seconds_between(started, end))


def _user(job: Job) -> str:
    user = job.spec.user
    return user.username or (str(user.uid) if job.spec.HasField("user") else "")
