"""Schemas of jobs in REST's answers."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import EventRecord, JobRecord, PodRecord
from appliance.core.cluster.run import Point, RunProgress
from appliance.core.cluster.run import RunSession as Session
from appliance.core.queries.job_filter import JobLine
from appliance.core.sparsity.masked_weights import MaskedWeights as Weights
from appliance.management.jobs.job_edits import mark_of
from appliance.management.jobs.job_service import JobView
from appliance.management.jobs.queue_view import QueueEntry
from appliance.wire.job_times import session_readings

LabelText = Annotated[str, Field(min_length=1, max_length=63)]


class JobSummary(BaseModel):
    """A job in a list."""

    id: str
    type: JobType
    session: str
    workflow: str
    user: str
    uid: int
    priority: int
    """From 0 to 399; lower goes first."""
    phase: Phase
    message: str
    """Reason of the phase."""
    num_systems: int
    systems: list[str]
    labels: dict[str, str]
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None

    @classmethod
    def of(cls, job: JobLine) -> "JobSummary":
        """Return a job's summary."""
        return cls(
            id=job.id,
            type=job.type,
            session=job.session,
            workflow=job.workflow,
            user=job.user.name,
            uid=job.user.uid,
            priority=job.priority,
            phase=job.phase,
            message=job.message,
            num_systems=job.num_systems,
            systems=list(job.systems),
            labels=dict(job.labels),
            created_at=job.created_at,
            started_at=job.started_at,
            ended_at=job.ended_at,
        )


class JobPage(BaseModel):
    """One page of a list of jobs."""

    items: list[JobSummary]
    next: str | None
    """Cursor of the next page; null on the last one."""
    total: int | None
    """How many jobs there are on all pages; null unless it was asked for."""


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
    """Current values by metric name; simulated ones say so in their names."""
    ended_at: dt.datetime | None

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
            ended_at=pod.ended_at,
        )


class PodList(BaseModel):
    """The pods of a job, by role and number."""

    items: list[Pod]


class Event(BaseModel):
    """Something that happened to a job."""

    at: dt.datetime
    reason: str
    message: str
    subject: str
    """The pod or job that it happened to."""
    is_warning: bool
    phase: Phase | None
    """For a change of phase, the phase entered."""

    @classmethod
    def of(cls, event: EventRecord) -> "Event":
        """Return an event."""
        return cls(
            at=event.at,
            reason=event.reason,
            message=event.message,
            subject=event.subject,
            is_warning=event.is_warning,
            phase=event.phase,
        )


class Progress(BaseModel):
    """How far the session is that a job runs."""

    session: int
    """Which session of the job, from 1."""
    completed_steps: int
    num_steps: int
    step_seconds: float | None
    """Wall time of a step, lately; null while that is not known."""
    remaining_seconds: float | None
    """Until the last step is complete; null while that is not known."""

    @classmethod
    def of(cls, progress: RunProgress, *, now_seconds: float) -> "Progress":
        """Return how far a session is."""
        return cls(
            session=progress.session,
            completed_steps=progress.completed_steps,
            num_steps=progress.num_steps,
            step_seconds=progress.step_seconds or None,
            remaining_seconds=progress.remaining_seconds(now_seconds),
        )


class MaskedWeights(BaseModel):
    """What the masks of a session let through of its weights, counted when its steps began."""

    num_masked: int
    """Weights that the program masks."""
    num_sparse: int
    """Those streamed by their non-zeros."""
    num_elements: int
    """Elements of all masked weights."""
    num_nonzeros: int
    """Elements that the masks let through."""
    density: float
    """Non-zeros over elements."""
    broadcast_bytes_per_step: int | None
    """What layer steps load in one step; null if no weight is sparse; so are the next four."""
    dense_broadcast_bytes_per_step: int | None
    """The same with whole tensors."""
    saved_broadcast_bytes_per_step: int | None
    simulated_step_seconds: float | None
    simulated_dense_step_seconds: float | None
    simulated_sparse_speedup: float | None
    """Simulated step time with whole tensors over that without; null if no weight is sparse."""
    dense_because: dict[str, int]
    """Why weights are held whole, streamed or not by their non-zeros; how many for each reason."""

    @classmethod
    def of(cls, weights: Weights) -> "MaskedWeights":
        """Return what is known of a session's masked weights."""
        is_sparse = weights.speedup is not None
        return cls(
            num_masked=weights.num_masked,
            num_sparse=weights.num_sparse,
            num_elements=weights.num_elements,
            num_nonzeros=weights.num_nonzeros,
            density=weights.density,
            broadcast_bytes_per_step=weights.broadcast_bytes if is_sparse else None,
            dense_broadcast_bytes_per_step=weights.dense_broadcast_bytes if is_sparse else None,
            saved_broadcast_bytes_per_step=weights.saved_bytes if is_sparse else None,
            simulated_step_seconds=weights.simulated_step_seconds if is_sparse else None,
            simulated_dense_step_seconds=weights.simulated_dense_step_seconds
            if is_sparse
            else None,
            simulated_sparse_speedup=weights.speedup,
            dense_because=dict(weights.dense_because),
        )


class RunSession(BaseModel):
    """A session that a job has run: a training or an evaluation."""

    session: int
    """From 1."""
    is_training: bool
    """Whether it changes the weights; else it evaluates."""
    num_steps: int
    completed_steps: int
    step_seconds: float | None
    """Wall time of a step, at its end; null while that is not known."""
    started_at: dt.datetime
    ended_at: dt.datetime | None
    """Null while it runs, and if its job ended before it."""
    readings: dict[str, float]
    """Times and rates of the job, and of each system with its name in front."""
    masked_weights: MaskedWeights | None
    """Null if the program masks no weight."""

    @classmethod
    def of(cls, session: Session) -> "RunSession":
        """Return a session."""
        return cls(
            session=session.number,
            is_training=session.is_training,
            num_steps=session.num_steps,
            completed_steps=session.completed_steps,
            step_seconds=session.step_seconds or None,
            started_at=session.started_at,
            ended_at=session.ended_at,
            readings=session_readings(session.pods),
            masked_weights=MaskedWeights.of(session.masked_weights)
            if session.masked_weights
            else None,
        )


class RunSessionList(BaseModel):
    """The sessions of a job, the first one first."""

    items: list[RunSession]


class EventList(BaseModel):
    """The events of a job, oldest first."""

    items: list[Event]


class PhaseSpan(BaseModel):
    """How long a job was in a phase."""

    phase: Phase
    entered_at: dt.datetime
    left_at: dt.datetime | None
    message: str


class Waiting(BaseModel):
    """Why a job waits, and for how long it is expected to."""

    reason: str
    kind: str
    """The reason in one word, as in `Resources`."""
    position: int
    """1 for the job of its type that is served first."""
    blocking: list[str]
    """Jobs that hold what it needs, the first to end first."""
    behind: list[str]
    """Waiting jobs that it may not delay."""
    expected_start_at: dt.datetime | None
    expected_start_basis: str
    is_promised: bool
    """Whether nobody behind may delay that start."""
    expected_run_seconds: float | None
    """How long it is expected to run, by its limit or by what runs like it took."""

    @classmethod
    def of(cls, entry: QueueEntry) -> "Waiting":
        """Return why a job waits."""
        return cls(
            reason=entry.reason,
            kind=entry.kind.value,
            position=entry.position,
            blocking=list(entry.blocking),
            behind=list(entry.behind),
            expected_start_at=entry.expected_start,
            expected_start_basis=entry.basis,
            is_promised=entry.is_promised,
            expected_run_seconds=entry.run_seconds,
        )


class Job(JobSummary):
    """A job with all that belongs to it."""

    gid: int
    detail: str
    """All that is known of the reason, as with a traceback; empty if `message` says it all."""
    mark: str
    """The state of what can be edited, as in the ETag."""
    dashboard: str
    """Address of its page."""
    namespace: str
    """Kubernetes namespace that it is in; empty if it is in none, as after its wsjob has gone."""
    client_workdir: str
    client_release: str
    """Release of the client that submitted it, as in `2.10.0`; empty if it did not say."""
    artifact_dir: str
    workers_per_system: int
    phases: list[PhaseSpan]
    pods: list[Pod]
    events: list[Event]
    waiting: Waiting | None
    """Null for a job that does not wait."""
    progress: Progress | None
    """Null while no session runs."""
    num_run_sessions: int
    """Sessions that it has run so far, the present one too."""
    held_by: str
    """Who holds it back while it waits; empty for nobody."""

    @classmethod
    def of_view(
        cls,
        view: JobView,
        *,
        waiting: QueueEntry | None,
        progress: Progress | None,
        num_run_sessions: int,
        dashboard: str,
        namespace: str,
    ) -> "Job":
        """Return a job with all that belongs to it."""
        job = view.job
        return cls(
            **{name: getattr(job, name) for name in cls._alike()},
            user=job.user.name,
            uid=job.user.uid,
            gid=job.user.gid,
            mark=mark_of(job),
            dashboard=dashboard,
            namespace=namespace,
            phases=phase_spans(view.events),
            pods=[Pod.of(pod) for pod in view.pods],
            events=[Event.of(event) for event in view.events],
            waiting=Waiting.of(waiting) if waiting else None,
            progress=progress,
            num_run_sessions=num_run_sessions,
        )

    @classmethod
    def _alike(cls) -> set[str]:
        """Return the fields that a job's record has by the same name, and in the same form."""
        return cls.model_fields.keys() & JobRecord.__dataclass_fields__.keys() - {"user"}


class JobChange(BaseModel):
    """What to change of a job; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    priority: Annotated[str, Field(max_length=8)] | None = None
    """`p0` to `p3`, or a number from 0 to 399."""
    labels: dict[LabelText, LabelText | None] | None = None
    """Labels to add or replace; null removes one."""


class SeriesPoint(BaseModel):
    """One value of a series."""

    session: int
    """Which run of the job, from 1."""
    step: int
    value: float | None
    """Null where it was no finite number."""
    at: dt.datetime


class Series(BaseModel):
    """What training shows step by step."""

    series: dict[str, list[SeriesPoint]]
    """By name: the program's scalar outputs, `samples_per_second`, and what the job's pods use
    together: `pods_memory` in GiB (shared pages once) and `pods_processors`."""
    titles: dict[str, str]
    """What series are, by name: words of the user's code, or `learning rate` and the like."""
    next: str
    """Give this as `after` to get only what comes later."""

    @classmethod
    def of(
        cls,
        found: Mapping[str, Sequence[tuple[int, Point]]],
        *,
        titles: Mapping[str, str],
        after: int,
    ) -> "Series":
        """Return series."""
        newest = max((number for points in found.values() for number, _ in points), default=after)
        return cls(
            series={
                name: [
                    SeriesPoint(
                        session=point.session, step=point.step, value=point.value, at=point.at
                    )
                    for _, point in points
                ]
                for name, points in sorted(found.items())
            },
            titles={name: title for name, title in titles.items() if name in found},
            next=str(newest),
        )


def phase_spans(events: Sequence[EventRecord]) -> list[PhaseSpan]:
    """Return the phases that a job went through, from its events."""
    changes = [event for event in events if event.phase is not None]
    spans = []
    for position, event in enumerate(changes):
        assert event.phase is not None
        following = changes[position + 1].at if position + 1 < len(changes) else None
        spans.append(
            PhaseSpan(
                phase=event.phase,
                entered_at=event.at,
                left_at=following or (event.at if event.phase.is_terminal else None),
                message=event.message,
            )
        )
    return spans
