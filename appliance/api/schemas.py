"""What REST answers are made of."""

import datetime as dt

from pydantic import BaseModel

from appliance.core.records import EventRecord, JobRecord, PodRecord
from appliance.management.inventory import NodeUse, SystemUse
from appliance.management.jobs import JobView


class JobSummary(BaseModel):
    """A job in a list."""

    id: str
    type: str
    session: str
    workflow: str
    user: str
    priority: int
    phase: str
    message: str
    num_systems: int
    systems: list[str]
    labels: dict[str, str]
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None

    @classmethod
    def of(cls, job: JobRecord) -> "JobSummary":
        """Return a job's summary."""
        return cls(
            id=job.id,
            type=job.type.value,
            session=job.session,
            workflow=job.workflow,
            user=job.user.name,
            priority=job.priority,
            phase=job.phase.value,
            message=job.message,
            num_systems=job.num_systems,
            systems=list(job.systems),
            labels=dict(job.labels),
            created_at=job.created_at,
            started_at=job.started_at,
            ended_at=job.ended_at,
        )


class Pod(BaseModel):
    """A pod of a job."""

    name: str
    role: str
    index: int
    node: str
    phase: str
    exit_code: int | None
    message: str
    step: int
    resident_bytes: int
    readings: dict[str, float]

    @classmethod
    def of(cls, pod: PodRecord) -> "Pod":
        """Return a pod."""
        return cls(
            name=pod.name,
            role=pod.role.value,
            index=pod.index,
            node=pod.node,
            phase=pod.phase,
            exit_code=pod.exit_code,
            message=pod.message,
            step=pod.step,
            resident_bytes=pod.resident_bytes,
            readings=dict(pod.readings),
        )


class Event(BaseModel):
    """Something that happened to a job."""

    at: dt.datetime
    reason: str
    message: str
    subject: str
    is_warning: bool

    @classmethod
    def of(cls, event: EventRecord) -> "Event":
        """Return an event."""
        return cls(
            at=event.at,
            reason=event.reason,
            message=event.message,
            subject=event.subject,
            is_warning=event.is_warning,
        )


class Job(JobSummary):
    """A job with all that belongs to it."""

    pods: list[Pod]
    events: list[Event]
    waiting_for: str | None

    @classmethod
    def of_view(cls, view: JobView) -> "Job":
        """Return a job with all that belongs to it."""
        return cls(
            **JobSummary.of(view.job).model_dump(),
            pods=[Pod.of(pod) for pod in view.pods],
            events=[Event.of(event) for event in view.events],
            waiting_for=view.wait.reason if view.wait else None,
        )


class JobPage(BaseModel):
    """Jobs by priority, newest first within equal priority."""

    items: list[JobSummary]


class System(BaseModel):
    """A CS-2 and the job that holds it."""

    name: str
    is_healthy: bool
    notes: str
    job: str | None


class Node(BaseModel):
    """A CPU node."""

    name: str
    roles: list[str]
    num_cores: int
    memory_bytes: int
    cpu_percent: float
    memory_percent: float
    jobs: list[str]


class Cluster(BaseModel):
    """All systems and nodes."""

    systems: list[System]
    nodes: list[Node]

    @classmethod
    def of(cls, systems: list[SystemUse], nodes: list[NodeUse]) -> "Cluster":
        """Return the cluster."""
        return cls(
            systems=[
                System(
                    name=use.system.name,
                    is_healthy=use.system.is_healthy,
                    notes=use.system.notes,
                    job=use.holder.id if use.holder else None,
                )
                for use in systems
            ],
            nodes=[
                Node(
                    name=use.node.name,
                    roles=list(use.node.roles),
                    num_cores=use.node.num_cores,
                    memory_bytes=use.node.memory_bytes,
                    cpu_percent=use.load.cpu_percent,
                    memory_percent=use.load.memory_percent,
                    jobs=[job.id for job in use.holders],
                )
                for use in nodes
            ],
        )


class Health(BaseModel):
    """The appliance answers."""

    status: str
