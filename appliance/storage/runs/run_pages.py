"""Runs: workflows that have jobs, newest first, each with its jobs.

A workflow names its first job, so that pages of runs follow an index and are filtered by what that
job says. When that job is forgotten the next one takes its place; a run goes with its last job.

The client of an attached run lives while it renews its workflow's lease. Clients that open no
workflow have none between their jobs: such a client is taken to live for some seconds after a
compile that has succeeded, in which it submits the job that it has compiled for.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, func, or_, select
from sqlalchemy.orm import Session, aliased

from appliance.core.clock import Clock
from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.ids import JobId, WorkflowId
from appliance.core.queries.job_filter import JobFilter, JobLine
from appliance.core.queries.run_line import RunLine
from appliance.storage.engine.database import Database
from appliance.storage.queue.job_filter_sql import conditions
from appliance.storage.queue.job_pages import LINE_COLUMNS, lines_of
from appliance.storage.schema.tables import DriverSpecRow, JobRow, LeaseRow, WorkflowRow

_MAX_NAMESAKES = 64
_MOST_TOGETHER = 500
"""Runs that one statement asks for: databases bound the values of a statement."""

_BETWEEN_JOBS = dt.timedelta(seconds=15)
"""How long a client without a lease may take from the end of a compile to its next job; it takes
some seconds. Trainers of the Model Zoo have a lease."""


class RunRepository:
    """All runs.

    Args:
        clock: Tells which clients live.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def page(self, wanted: JobFilter) -> Sequence[RunLine]:
        """Return runs, newest first.

        Args:
            wanted: What the first job of each must be like; but without `with_finished` those of
                which any job has not ended. `after` names the last run by that job.
        """
        with self._database.reading() as rows:
            now = self._clock.now()
            return _all(rows, _conditions(wanted, now), wanted.limit, now)

    def count(self, wanted: JobFilter) -> int:
        """Return how many runs there are on all pages together."""
        every = _conditions(replace(wanted, after=None), self._clock.now())
        query = select(func.count()).select_from(WorkflowRow).join(JobRow, _IS_FIRST).where(*every)
        with self._database.reading() as rows:
            return rows.scalar(query) or 0

    def find(self, run: WorkflowId) -> RunLine | None:
        """Return a run, or None if there is none of that id."""
        with self._database.reading() as rows:
            return next(iter(_page(rows, [WorkflowRow.id == run], 1, self._clock.now())), None)

    def named(self, name: str, session: str) -> Sequence[RunLine]:
        """Return the newest runs of a name in a session, newest first; an empty one means all."""
        wanted = [WorkflowRow.run_name == name, WorkflowRow.run_name != ""]
        if session:
            wanted.append(JobRow.session == session)
        with self._database.reading() as rows:
            return _page(rows, wanted, _MAX_NAMESAKES, self._clock.now())


_IS_FIRST = JobRow.sequence == WorkflowRow.first_sequence


def _conditions(wanted: JobFilter, now: dt.datetime) -> list[ColumnElement[bool]]:
    found = conditions(replace(wanted, with_finished=True))
    if not wanted.with_finished and not wanted.phases:
        unfinished = aliased(JobRow)
        live = select(unfinished.workflow).where(unfinished.ended_at.is_(None))
        is_attached = JobRow.type != JobType.DRIVER.value
        has_client = WorkflowRow.id.in_(_with_clients(now))
        found.append(or_(WorkflowRow.id.in_(live), is_attached & has_client))
    if wanted.after is not None:
        found.append(WorkflowRow.first_sequence < wanted.after.sequence)
    return found


# `Any`: a select of one column has no closer type.
def _with_clients(now: dt.datetime) -> "CompoundSelect[Any]":
    """Return a query of the workflows whose clients live; see the module."""
    job, later = aliased(JobRow), aliased(JobRow)
    newest = select(func.max(later.sequence)).where(later.workflow == job.workflow)
    compiled = select(job.workflow).where(
        job.type == JobType.COMPILE.value,
        job.phase == Phase.SUCCEEDED.value,
        job.ended_at > now - _BETWEEN_JOBS,
        job.sequence == newest.scalar_subquery(),
    )
    return select(LeaseRow.id).where(LeaseRow.expires_at > now).union(compiled)


def _all(
    rows: Session, wanted: Sequence[ColumnElement[bool]], limit: int, now: dt.datetime
) -> list[RunLine]:
    """Return runs by some statements of a bounded size; a limit of 0 means all."""
    found: list[RunLine] = []
    behind: list[ColumnElement[bool]] = []
    while size := min(limit - len(found), _MOST_TOGETHER) if limit else _MOST_TOGETHER:
        part = _page(rows, [*wanted, *behind], size, now)
        found += part
        if len(part) < size:
            break
        behind = [WorkflowRow.first_sequence < part[-1].first.sequence]
    return found


def _page(
    rows: Session, wanted: Sequence[ColumnElement[bool]], limit: int, now: dt.datetime
) -> list[RunLine]:
    query = select(WorkflowRow.id, WorkflowRow.run_name, WorkflowRow.uid).join(JobRow, _IS_FIRST)
    query = query.where(*wanted).order_by(WorkflowRow.first_sequence.desc())
    found = rows.execute(query.limit(limit)).all()
    jobs = _jobs_of(rows, found)
    drivers = [of[0].id for of in jobs.values() if of and of[0].type is JobType.DRIVER]
    specs, clients = _specs_of(rows, drivers), _clients_of(rows, found, now)
    return [
        RunLine(
            id=WorkflowId(row.id),
            name=row.run_name,
            jobs=jobs[row.id],
            spec=specs.get(jobs[row.id][0].id),
            has_client=row.id in clients,
        )
        for row in found
        if jobs[row.id]
    ]


# `Any`: rows of a few columns.
def _jobs_of(rows: Session, runs: Sequence[Any]) -> dict[str, list[JobLine]]:
    """Return the jobs of runs, oldest first; those of another user are none of the run's."""
    owners = {run.id: run.uid for run in runs}
    are_theirs = JobRow.workflow.in_(owners)
    found = rows.execute(select(*LINE_COLUMNS).where(are_theirs).order_by(JobRow.sequence)).all()
    jobs: defaultdict[str, list[JobLine]] = defaultdict(list)
    for job in lines_of(rows, found, select(JobRow.id).where(are_theirs)):
        if job.user.uid == owners[job.workflow]:
            jobs[job.workflow].append(job)
    return jobs


# `Any`: rows of a few columns.
def _clients_of(rows: Session, runs: Sequence[Any], now: dt.datetime) -> Set[str]:
    query = select(WorkflowRow.id).where(WorkflowRow.id.in_([run.id for run in runs]))
    return set(rows.scalars(query.where(WorkflowRow.id.in_(_with_clients(now)))))


def _specs_of(rows: Session, drivers: Sequence[JobId]) -> dict[JobId, DriverSpec]:
    query = select(DriverSpecRow.job, DriverSpecRow.spec).where(DriverSpecRow.job.in_(drivers))
    return {JobId(job): DriverSpec.from_json(spec) for job, spec in rows.execute(query)}
