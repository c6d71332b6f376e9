"""Jobs and their events, as rows; a change and the event that tells of it are one transaction."""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields
from functools import partial
from itertools import pairwise
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from appliance.core.clock import Clock
from appliance.core.cluster.jobs import JobType, Phase, may_follow
from appliance.core.cluster.records import (
    MAX_LABELS,
    NO_HOLDING,
    EventRecord,
    Holding,
    JobRecord,
    NewJob,
)
from appliance.core.errors import ConflictError, InternalError, UserError
from appliance.core.failure_causes import cause_of
from appliance.core.ids import JobId
from appliance.core.queries.job_filter import JobFilter, JobOrder
from appliance.storage.cluster.past_runs import PastRun, past_runs
from appliance.storage.engine.database import Database
from appliance.storage.engine.writes import Write
from appliance.storage.queue import job_writes
from appliance.storage.queue.job_cache import PublishedJobs
from appliance.storage.queue.job_filter_sql import IS_UNFINISHED, conditions, page_of
from appliance.storage.queue.job_numbers import JobNumbers
from appliance.storage.queue.job_rows import record_of
from appliance.storage.queue.job_writes import unknown_job
from appliance.storage.queue.workflows import lead_runs_on
from appliance.storage.schema.tables import EventRow, GrantRow, JobRow, LabelRow, LeaseRow, table_of

_FIELDS_OF_NEW = tuple(field.name for field in fields(NewJob))
_COLUMNS = tuple(table_of(JobRow).columns)


class JobRepository:
    """All jobs that were ever submitted.

    Args:
        clock: Gives the times of events.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._published = PublishedJobs()
        self._numbers = JobNumbers(database)

    def create(self, new: NewJob) -> JobRecord:
        """Store a new job in phase QUEUED; the events of its creation are written with it."""
        if not self._database.batch_number:
            with self._database.batch():
                return self.create(new)
        record = JobRecord(
            **{name: getattr(new, name) for name in _FIELDS_OF_NEW},
            sequence=self._numbers.next(),
            phase=Phase.QUEUED,
            message="",
            systems=(),
            service_address="",
            artifact_dir="",
            created_at=self._clock.now(),
            started_at=None,
            ended_at=None,
        )
        self._database.write(*job_writes.new_job(record, lambda: self._published.hold(record)))
        return record

    def remember(self, jobs: Sequence[JobRecord]) -> None:
        """Hold all unfinished jobs in memory from now on, as those are that were created here."""
        for job in jobs:
            self._published.hold(job)
        self._published.is_complete = True

    def find(self, job: JobId) -> JobRecord | None:
        """Return a job, or None if there is none of that id."""
        if not self._database.batch_number and (known := self._published.find(job)) is not None:
            return known
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
            raise unknown_job(job)
        return record

    def list(self, wanted: JobFilter) -> Sequence[JobRecord]:
        """Return the whole records of the jobs that a filter lets pass."""
        with self._database.reading() as session:
            if wanted.limit:
                first = page_of(select(JobRow.id), wanted)
                return self._records(session, [JobId(job) for job in session.scalars(first)])
            return _read(session, wanted)

    def unfinished(self) -> Sequence[JobRecord]:
        """Return every job that has not ended, in order of submission."""
        if self._published.is_complete and not self._database.batch_number:
            return self._published.in_order()
        with self._database.reading() as session:
            return _read(session, JobFilter(order=JobOrder.OLDEST))

    def unfinished_drivers(self, uid: int) -> Set[JobId]:
        """Return a user's drivers that have not ended."""
        if self._published.is_complete and not self._database.batch_number:
            return self._published.drivers_of(uid)
        is_mine = (JobRow.uid == uid, JobRow.type == JobType.DRIVER.value, IS_UNFINISHED)
        with self._database.reading() as session:
            return frozenset(map(JobId, session.scalars(select(JobRow.id).where(*is_mine))))

    def in_directory(self, artifact_dir: str) -> Sequence[JobRecord]:
        """Return the jobs whose clients lower programs below a directory, oldest first.

        They are as committed, and of those that have ended only the latest few thousand.

        Args:
            artifact_dir: As in `JobRecord.artifact_dir_of_client`; not empty.
        """
        return self._published.in_directory(artifact_dir)

    def unclaimed(self, digest: str, *, since: dt.datetime) -> Sequence[JobRecord]:
        """Return jobs of one request whose client has not renewed their lease, newest first.

        Args:
            digest: Of the request; not empty.
            since: Only jobs submitted since then, and of those only the unfinished.
        """
        query = (
            select(JobRow)
            .join(LeaseRow, LeaseRow.id == JobRow.id)
            .where(JobRow.request_digest == digest, JobRow.request_digest != "")
            .where(JobRow.created_at >= since, IS_UNFINISHED, LeaseRow.holder == "")
            .order_by(JobRow.sequence.desc())
        )
        with self._database.reading() as session:
            return [_record(row) for row in session.scalars(query)]

    def _records(self, session: Session, jobs: Sequence[JobId]) -> Sequence[JobRecord]:
        """Return jobs in a given order, from memory those that are there."""
        known = {
            job: None if self._database.batch_number else self._published.find(job) for job in jobs
        }
        missing = [job for job, record in known.items() if record is None]
        if missing:
            for row in session.scalars(select(JobRow).where(JobRow.id.in_(missing))):
                known[JobId(row.id)] = _record(row)
        return [record for record in known.values() if record is not None]

    def change_phase(
        self,
        job: JobRecord,
        new: Phase,
        *,
        through: Phase | None = None,
        message: str = "",
        systems: Sequence[str] | None = None,
        holding: Holding | None = None,
    ) -> JobRecord:
        """Move a job to another phase and write the event.

        Args:
            job: The job as the caller knows it.
            new: The phase to enter.
            through: A phase that it enters and leaves at once on its way, of which an event tells;
                None if it enters `new` directly.
            message: Reason: its line is kept with the job and in the event, all of it with the job.
            systems: Names of the systems granted with this change; None leaves them.
            holding: What else was granted with this change; None leaves it.

        Returns:
            The job as it is then.

        Raises:
            ConflictError: The job is in another phase than the caller knows.
            InternalError: `new` may not follow its phase.
        """
        way = (job.phase, new) if through is None else (job.phase, through, new)
        for here, there in pairwise(way):
            if not may_follow(here, there):
                raise InternalError(f"Job {job.id} cannot go from {here.value} to {there.value}.")
        now = self._clock.now()
        cause = cause_of(message)
        changes: dict[str, Any] = {"message": cause.line, "detail": cause.detail}
        if new is Phase.SCHEDULED:
            changes |= {"started_at": now, "holding": holding or NO_HOLDING}
        if new is Phase.QUEUED:
            changes |= {"started_at": None, "service_address": "", "holding": NO_HOLDING}
        if new.is_terminal:
            changes["ended_at"] = now
        if new is Phase.QUEUED or new.is_terminal:
            changes["verdict"] = None
        changed, writes = self._entry(job, new, changes, systems)
        events = job_writes.new_phase_events(job.id, way[1:], cause.line, now)
        self._database.write(*writes, events)
        return changed

    def _entry(
        self, job: JobRecord, new: Phase, changes: Mapping[str, Any], systems: Sequence[str] | None
    ) -> tuple[JobRecord, Sequence[Write]]:
        row, known, writes = dict(changes), {**changes, "phase": new}, []
        if "holding" in row:
            row["holding"] = row["holding"].to_dict()
        if new is Phase.SCHEDULED:
            known["num_starts"] = job.num_starts + 1
        if new is Phase.QUEUED:
            known["systems"] = ()
            writes.append(job_writes.no_grants(job.id))
        elif systems:
            known["systems"] = tuple(systems)
            writes.append(job_writes.new_grants(job.id, tuple(systems)))
        changed, effect = self._changed(job, known)
        writes.append(job_writes.job_entry(job.id, job.phase, new, row, effect))
        return changed, writes

    # `Any`: a JSON object, read and written by the job machine.
    def set_verdict(self, job: JobRecord, verdict: Mapping[str, Any]) -> JobRecord:
        """Store how a job will end, so that a new management ends it likewise."""
        return self._change(job, "verdict", dict(verdict))

    def set_message(self, job: JobRecord, message: str) -> JobRecord:
        """Replace the reason of a job's present phase."""
        return self._change(job, "message", message)

    def set_holding(self, job: JobRecord, holding: Holding) -> JobRecord:
        """Store what a job that runs was granted beyond its systems; its time begins now."""
        now = self._clock.now()
        changed, effect = self._changed(job, {"holding": holding, "started_at": now})
        self._database.write(job_writes.job_holding(job.id, holding, now, effect))
        return changed

    def set_service_address(self, job: JobRecord, address: str) -> JobRecord:
        """Store where a job's coordinator listens."""
        return self._change(job, "service_address", address)

    def set_artifact_dir(self, job: JobRecord, path: str) -> JobRecord:
        """Store where a compile job left its artifacts."""
        return self._change(job, "artifact_dir", path)

    def set_priority(self, job: JobRecord, priority: int) -> JobRecord:
        """Change a job's priority."""
        return self._change(job, "priority", priority)

    def set_holder(self, job: JobRecord, name: str) -> JobRecord:
        """Store who holds a waiting job back; empty for nobody."""
        return self._change(job, "held_by", name)

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
            if len(row.labels) > max(MAX_LABELS, len(kept)):
                raise UserError(
                    f"Job {job} would have {len(row.labels)} labels; {MAX_LABELS} are the most.",
                    hint="Remove some first, as in `csctl label job NAME old-`.",
                )
            if priority is not None:
                row.priority = priority
            session.flush()
            record = _record(row)
        changed = {"labels": record.labels, "priority": record.priority}
        self._database.after_commit(lambda: self._published.publish(record, record, changed))
        return record

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
            session.flush()
            lead_runs_on(session, [row.sequence])
        self._database.after_commit(lambda: self._published.forget(job))

    def prune(self, before: dt.datetime, *, limit: int) -> Sequence[tuple[JobId, str]]:
        """Forget jobs that ended before a time, with all that belongs to them, the oldest first.

        Args:
            before: Jobs that ended later stay.
            limit: At most so many.

        Returns:
            Each one's id and work directory.
        """
        columns = (JobRow.id, JobRow.work_dir, JobRow.sequence)
        old = select(*columns).where(JobRow.ended_at < before)
        with self._database.transaction() as session:
            found = session.execute(old.order_by(JobRow.ended_at).limit(limit)).all()
            names = [row.id for row in found]
            session.execute(delete(JobRow).where(JobRow.id.in_(names)))
            lead_runs_on(session, [row.sequence for row in found])
        self._database.after_commit(lambda: self._published.forget(*names))
        return [(JobId(row.id), row.work_dir) for row in found]

    def add_event(self, event: EventRecord) -> None:
        """Write an event that changes no phase."""
        self._database.write(job_writes.new_event(event))

    def events(self, job: JobId) -> Sequence[EventRecord]:
        """Return a job's events, oldest first."""
        query = select(EventRow).where(EventRow.job == job).order_by(EventRow.id)
        with self._database.reading() as session:
            return [_event(row) for row in session.scalars(query)]

    def past_runs(self, since: dt.datetime) -> Sequence[PastRun]:
        """Return jobs that ran and ended after a time, in order of their end."""
        with self._database.reading() as rows:
            return past_runs(rows, since)

    def last_end(self, session: str) -> dt.datetime | None:
        """Return when the last job of a session ended; None if none did."""
        query = select(JobRow.ended_at).where(JobRow.session == session)
        latest = query.where(JobRow.ended_at.is_not(None)).order_by(JobRow.ended_at.desc()).limit(1)
        with self._database.reading() as rows:
            return rows.scalar(latest)

    # `Any`: the value of a column and of the record's field of that name.
    def _change(self, job: JobRecord, name: str, value: Any) -> JobRecord:  # noqa: ANN401
        changed, effect = self._changed(job, {name: value})
        self._database.write(job_writes.job_change(job.id, name, value, effect))
        return changed

    def _changed(
        self, job: JobRecord, changes: Mapping[str, Any]
    ) -> tuple[JobRecord, Callable[[], None]]:
        """Return a changed record, and what publishes it once the change is committed."""
        changed = job.changed(changes)
        return changed, partial(self._published.publish, job, changed, changes)


def _locked(session: Session, job: JobId) -> JobRow:
    row = session.scalar(select(JobRow).where(JobRow.id == job).with_for_update())
    if row is None:
        raise unknown_job(job)
    return row


def _read(session: Session, wanted: JobFilter) -> Sequence[JobRecord]:
    """Return jobs by three queries, without an object for each row on the way."""
    chosen = select(JobRow.id).where(*conditions(wanted))
    labels: defaultdict[str, dict[str, str]] = defaultdict(dict)
    of_labels = select(LabelRow.job, LabelRow.key, LabelRow.value).where(LabelRow.job.in_(chosen))
    for job, key, value in session.execute(of_labels):
        labels[job][key] = value
    systems: defaultdict[str, list[str]] = defaultdict(list)
    of_grants = select(GrantRow.job, GrantRow.system).where(GrantRow.job.in_(chosen))
    for job, system in session.execute(of_grants.order_by(GrantRow.position)):
        systems[job].append(system)
    rows = session.execute(page_of(select(*_COLUMNS), wanted))
    return [record_of(row, labels.get(row.id, {}), tuple(systems.get(row.id, ()))) for row in rows]


def _record(row: JobRow) -> JobRecord:
    labels = {label.key: label.value for label in row.labels}
    return record_of(row, labels, tuple(grant.system for grant in row.grants))


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
