"""Jobs and their events, as rows; a change and the event that tells of it are one transaction."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.orm import Session

from appliance.core.clock import Clock
from appliance.core.errors import ConflictError, InternalError, NotFoundError
from appliance.core.ids import JobId, WorkflowId
from appliance.core.jobs import JobType, Phase, may_follow
from appliance.core.records import EventRecord, Holding, JobRecord, NewJob, User
from appliance.core.requirements import Requirements
from appliance.storage.database import Database
from appliance.storage.tables import EventRow, GrantRow, JobRow, LabelRow

_TERMINAL = tuple(phase.value for phase in Phase if phase.is_terminal)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; conditions combine with "and".

    Attributes:
        session: Only of this session; empty means all.
        workflow: Only of this workflow; empty means all.
        uid: Only of this user; None means all.
        labels: Only with all of these labels.
        with_finished: Finished jobs too.
        limit: At most so many, newest first within a priority; 0 means no limit.
    """

    session: str = ""
    workflow: str = ""
    uid: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    with_finished: bool = False
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A job that held resources and has ended, as far as the scheduler learns from it."""

    type: JobType
    session: str
    user: str
    num_systems: int
    program: str
    started_at: dt.datetime
    ended_at: dt.datetime
    has_succeeded: bool


class JobRepository:
    """All jobs that were ever submitted.

    Args:
        database: Where they are kept.
        clock: Gives the times of events.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def create(self, new: NewJob) -> JobRecord:
        """Keep a new job in phase QUEUED; the events of its creation are written with it."""
        now = self._clock.now()
        row = JobRow(
            id=new.id,
            type=new.type.value,
            session=new.session,
            workflow=new.workflow,
            uid=new.user.uid,
            gid=new.user.gid,
            username=new.user.name,
            priority=new.priority,
            num_systems=new.num_systems,
            workers_per_system=new.workers_per_system,
            work_dir=new.work_dir,
            client_workdir=new.client_workdir,
            service_authority=new.service_authority,
            service_address="",
            artifact_dir="",
            requirements=new.requirements.to_dict(),
            holding={},
            verdict=None,
            num_starts=0,
            phase=Phase.QUEUED.value,
            message="",
            created_at=now,
            labels=[LabelRow(key=key, value=value) for key, value in new.labels.items()],
            grants=[],
        )
        with self._database.transaction() as session:
            session.add(row)
            session.flush()
            for phase in (Phase.CREATED, Phase.QUEUED):
                session.add(_phase_event(new.id, phase, "", now))
        return _record(row)

    def find(self, job: JobId) -> JobRecord | None:
        """Return a job, or None if there is none of that id."""
        with self._database.reading() as session:
            query = select(JobRow).where(JobRow.id == job)
            row = session.scalar(query.execution_options(populate_existing=True))
            return None if row is None else _record(row)

    def load(self, job: JobId) -> JobRecord:
        """Return a job.

        Raises:
            NotFoundError: There is none of that id.
        """
        if (record := self.find(job)) is None:
            raise _unknown(job)
        return record

    def list(self, wanted: JobFilter) -> Sequence[JobRecord]:
        """Return jobs by priority, newest first within equal priority."""
        query = _filtered(wanted).order_by(JobRow.priority, JobRow.sequence.desc())
        if wanted.limit > 0:
            query = query.limit(wanted.limit)
        with self._database.reading() as session:
            return [_record(row) for row in session.scalars(query)]

    def unfinished(self) -> Sequence[JobRecord]:
        """Return every job that has not ended, in order of submission."""
        query = select(JobRow).where(JobRow.phase.not_in(_TERMINAL)).order_by(JobRow.sequence)
        with self._database.reading() as session:
            return [_record(row) for row in session.scalars(query)]

    def change_phase(
        self,
        job: JobId,
        current: Phase,
        new: Phase,
        *,
        message: str = "",
        systems: Sequence[str] | None = None,
        holding: Holding | None = None,
    ) -> None:
        """Move a job from one phase to another and write the event.

        Args:
            job: The job.
            current: The phase that the caller believes the job is in.
            new: The phase to enter.
            message: Reason, kept with the job and in the event.
            systems: Names of the systems granted with this change; None leaves them.
            holding: What else was granted with this change; None leaves it.

        Raises:
            ConflictError: The job is in another phase than `current`: the caller is out of date.
            InternalError: `new` may not follow `current`.
        """
        if not may_follow(current, new):
            raise InternalError(f"Job {job} cannot go from {current.value} to {new.value}.")
        now = self._clock.now()
        values: dict[str, object] = {"phase": new.value, "message": message}
        if holding is not None:
            values["holding"] = holding.to_dict()
        if new is Phase.SCHEDULED:
            values["started_at"] = now
            values["num_starts"] = JobRow.num_starts + 1
        if new.is_terminal:
            values["ended_at"] = now
        if new is Phase.QUEUED:
            values |= {"started_at": None, "service_address": "", "holding": {}}
        if new is Phase.QUEUED or new.is_terminal:
            values["verdict"] = None
        guard = (JobRow.id == job, JobRow.phase == current.value)
        with self._database.transaction() as session:
            changed = session.execute(update(JobRow).where(*guard).values(**values))
            if changed.rowcount == 0:  # type: ignore[attr-defined]  # CursorResult, typed as Result
                raise ConflictError(f"Job {job} is not {current.value} any more.")
            if new is Phase.QUEUED:
                session.execute(delete(GrantRow).where(GrantRow.job == job))
            for position, name in enumerate(systems or ()):
                session.add(GrantRow(job=job, system=name, position=position))
            session.add(_phase_event(job, new, message, now))

    # `Any`: a JSON object, read and written by the job machine.
    def set_verdict(self, job: JobId, verdict: Mapping[str, Any]) -> None:
        """Keep how a job will end, so that a new management ends it likewise."""
        self._update(job, verdict=dict(verdict))

    def set_message(self, job: JobId, message: str) -> None:
        """Replace the reason of a job's present phase."""
        self._update(job, message=message)

    def set_service_address(self, job: JobId, address: str) -> None:
        """Keep where a job's coordinator listens."""
        self._update(job, service_address=address)

    def set_artifact_dir(self, job: JobId, path: str) -> None:
        """Keep where a compile job left its artifacts."""
        self._update(job, artifact_dir=path)

    def set_priority(self, job: JobId, priority: int) -> None:
        """Change a job's priority."""
        self._update(job, priority=priority)

    def patch_labels(self, job: JobId, changes: Mapping[str, str | None]) -> JobRecord:
        """Add or replace labels; None as a value removes one.

        Raises:
            NotFoundError: There is no job of that id.
        """
        return self.edit(job, labels=changes)

    def edit(
        self,
        job: JobId,
        *,
        labels: Mapping[str, str | None],
        priority: int | None = None,
        check: Callable[[JobRecord], None] | None = None,
    ) -> JobRecord:
        """Change labels and priority in one transaction.

        Args:
            job: The job.
            labels: To add or replace; None as a value removes one.
            priority: The new one; None leaves it.
            check: Raises if the job, as it is now, must not be changed.

        Raises:
            NotFoundError: There is no job of that id.
        """
        with self._database.transaction() as session:
            row = _locked(session, job)
            if check is not None:
                check(_record(row))
            kept = {label.key: label for label in row.labels}
            for key, value in labels.items():
                if value is None:
                    if key in kept:
                        row.labels.remove(kept[key])
                elif key in kept:
                    kept[key].value = value
                else:
                    row.labels.append(LabelRow(key=key, value=value))
            if priority is not None:
                row.priority = priority
            session.flush()
            return _record(row)

    def delete(self, job: JobId) -> None:
        """Forget a job that has ended.

        Raises:
            NotFoundError: There is no job of that id.
            ConflictError: The job has not ended.
        """
        with self._database.transaction() as session:
            row = _locked(session, job)
            if not Phase(row.phase).is_terminal:
                raise ConflictError(f"Job {job} is {row.phase}.", hint="Cancel it first.")
            session.delete(row)

    def add_event(self, event: EventRecord) -> None:
        """Write an event that changes no phase."""
        with self._database.transaction() as session:
            session.add(
                EventRow(
                    job=event.job,
                    at=event.at,
                    reason=event.reason,
                    message=event.message,
                    subject=event.subject,
                    is_warning=event.is_warning,
                    phase=event.phase.value if event.phase else None,
                )
            )

    def events(self, job: JobId) -> Sequence[EventRecord]:
        """Return a job's events, oldest first."""
        query = select(EventRow).where(EventRow.job == job).order_by(EventRow.id)
        with self._database.reading() as session:
            return [_event(row) for row in session.scalars(query)]

    def past_runs(self, since: dt.datetime) -> Sequence[PastRun]:
        """Return jobs that ran and ended after a time, in order of their end."""
        columns = (
            *(JobRow.type, JobRow.session, JobRow.username, JobRow.uid, JobRow.num_systems),
            *(JobRow.requirements, JobRow.started_at, JobRow.ended_at, JobRow.phase),
        )
        query = select(*columns).where(JobRow.ended_at > since, JobRow.started_at.is_not(None))
        with self._database.reading() as rows:
            return [
                PastRun(
                    type=JobType(row.type),
                    session=row.session,
                    user=row.username or str(row.uid),
                    num_systems=row.num_systems,
                    program=row.requirements.get("program", ""),
                    started_at=row.started_at,
                    ended_at=row.ended_at,
                    has_succeeded=row.phase == Phase.SUCCEEDED.value,
                )
                for row in rows.execute(query.order_by(JobRow.ended_at))
            ]

    def last_end(self, session: str) -> dt.datetime | None:
        """Return when the last job of a session ended; None if none did."""
        query = select(JobRow.ended_at).where(JobRow.session == session)
        latest = query.where(JobRow.ended_at.is_not(None)).order_by(JobRow.ended_at.desc()).limit(1)
        with self._database.reading() as rows:
            return rows.scalar(latest)

    def count_phases(self, phases: Sequence[Phase]) -> int:
        """Return how many jobs are in one of the phases."""
        wanted = [phase.value for phase in phases]
        query = select(func.count()).select_from(JobRow).where(JobRow.phase.in_(wanted))
        with self._database.reading() as session:
            return session.scalar(query) or 0

    def _update(self, job: JobId, **values: object) -> None:
        with self._database.transaction() as session:
            changed = session.execute(update(JobRow).where(JobRow.id == job).values(**values))
            if changed.rowcount == 0:  # type: ignore[attr-defined]  # CursorResult, typed as Result
                raise _unknown(job)


def _unknown(job: str) -> NotFoundError:
    return NotFoundError(
        f"There is no job {job!r}.", hint="`csctl get jobs -a` lists the jobs of this cluster."
    )


def _locked(session: Session, job: JobId) -> JobRow:
    row = session.scalar(select(JobRow).where(JobRow.id == job).with_for_update())
    if row is None:
        raise _unknown(job)
    return row


def _filtered(wanted: JobFilter) -> Select[JobRow]:
    query = select(JobRow)
    if wanted.session:
        query = query.where(JobRow.session == wanted.session)
    if wanted.workflow:
        query = query.where(JobRow.workflow == wanted.workflow)
    if wanted.uid is not None:
        query = query.where(JobRow.uid == wanted.uid)
    if not wanted.with_finished:
        query = query.where(JobRow.phase.not_in(_TERMINAL))
    for key, value in wanted.labels.items():
        query = query.where(JobRow.labels.any((LabelRow.key == key) & (LabelRow.value == value)))
    return query


def _phase_event(job: JobId, phase: Phase, message: str, now: dt.datetime) -> EventRow:
    return EventRow(
        job=job,
        at=now,
        reason=f"Job{phase.value.capitalize()}",
        message=message,
        subject=job,
        is_warning=phase in (Phase.FAILED, Phase.FAILING),
        phase=phase.value,
    )


def _record(row: JobRow) -> JobRecord:
    return JobRecord(
        id=JobId(row.id),
        type=JobType(row.type),
        session=row.session,
        workflow=WorkflowId(row.workflow),
        user=User(uid=row.uid, gid=row.gid, name=row.username),
        priority=row.priority,
        num_systems=row.num_systems,
        workers_per_system=row.workers_per_system,
        labels={label.key: label.value for label in row.labels},
        work_dir=row.work_dir,
        client_workdir=row.client_workdir,
        service_authority=row.service_authority,
        sequence=row.sequence,
        phase=Phase(row.phase),
        message=row.message,
        systems=tuple(grant.system for grant in row.grants),
        requirements=Requirements.from_dict(row.requirements),
        holding=Holding.from_dict(row.holding),
        verdict=row.verdict,
        num_starts=row.num_starts,
        service_address=row.service_address,
        artifact_dir=row.artifact_dir,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def _event(row: EventRow) -> EventRecord:
    return EventRecord(
        job=JobId(row.job),
        at=row.at,
        reason=row.reason,
        message=row.message,
        subject=row.subject,
        is_warning=row.is_warning,
        phase=Phase(row.phase) if row.phase else None,
    )
