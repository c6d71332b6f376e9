"""Lists of jobs, a page at a time, with only the columns that a list shows.

A page costs the same however many jobs there are: it begins where the last one ended (a keyset) and
follows an index in the order of the list, one for all jobs and one for the unfinished. Whoever
looks into the middle of a list gives an offset, which costs a walk along the index: 3 ms for the
10,000th job.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import User
from appliance.core.ids import JobId
from appliance.core.queries.job_filter import JobFilter, JobLine
from appliance.storage.engine.database import Database
from appliance.storage.queue.job_filter_sql import IS_UNFINISHED, conditions, page_of
from appliance.storage.schema.tables import GrantRow, JobRow, LabelRow

_GRANTED = tuple(phase.value for phase in Phase if phase.holds_resources)

# `Any`: SQLAlchemy's rows and selects of this many columns have no closer type.
_Row = Any

_GIVEN = {"user", "labels", "systems"}
"""Fields of a line that are no column of their own."""
_OWN_COLUMNS = tuple(field.name for field in fields(JobLine) if field.name not in _GIVEN)
_TYPES: Mapping[str, Callable[[Any], Any]] = {"id": JobId, "type": JobType, "phase": Phase}

LINE_COLUMNS: tuple[Any, ...] = (
    *(getattr(JobRow, name) for name in _OWN_COLUMNS),
    *(JobRow.uid, JobRow.gid, JobRow.username),
)
"""What a list shows of a job, but its labels and systems."""


class JobPages:
    """Pages of jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, wanted: JobFilter) -> Sequence[JobLine]:
        """Return the jobs of one page, or all of them where there is no limit."""
        with self._database.reading() as session:
            rows = session.execute(page_of(select(*LINE_COLUMNS), wanted)).all()
            if wanted.limit:
                return lines_of(session, rows, [row.id for row in rows])
            return lines_of(session, rows, select(JobRow.id).where(*conditions(wanted)))

    def count(self, wanted: JobFilter) -> int:
        """Return how many jobs there are on all pages together."""
        query = select(func.count()).select_from(JobRow).where(*conditions(wanted))
        with self._database.reading() as session:
            return session.scalar(query) or 0

    def lines(self, jobs: Iterable[JobId]) -> Sequence[JobLine]:
        """Return those of some jobs that still exist."""
        ids = list(jobs)
        with self._database.reading() as session:
            rows = session.execute(select(*LINE_COLUMNS).where(JobRow.id.in_(ids))).all()
            return lines_of(session, rows, ids)

    def unfinished(self) -> frozenset[JobId]:
        """Return the ids of all jobs that have not ended."""
        query = select(JobRow.id).where(IS_UNFINISHED)
        with self._database.reading() as session:
            return frozenset(JobId(job) for job in session.scalars(query))

    def granted(self) -> frozenset[JobId]:
        """Return the ids of all jobs that hold resources: whose pods may run."""
        query = select(JobRow.id).where(JobRow.phase.in_(_GRANTED))
        with self._database.reading() as session:
            return frozenset(JobId(job) for job in session.scalars(query))

    def count_by_phase(self) -> Mapping[tuple[str, str, int], int]:
        """Return how many jobs there are by phase, type and bucket of priority (0 to 3)."""
        bucket = JobRow.priority // 100
        query = select(JobRow.phase, JobRow.type, bucket, func.count()).group_by(
            JobRow.phase, JobRow.type, bucket
        )
        with self._database.reading() as session:
            rows = session.execute(query).all()
            return {(phase, kind, int(group)): count for phase, kind, group, count in rows}


def lines_of(
    session: Session, rows: Sequence[_Row], ids: Sequence[str] | Select[Any]
) -> list[JobLine]:
    """Return the lines of rows.

    Args:
        session: Where their labels and systems are asked for.
        ids: Their ids, or a query of them, for more than a statement has variables for.
    """
    labels: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for label in session.execute(
        select(LabelRow.job, LabelRow.key, LabelRow.value).where(LabelRow.job.in_(ids))
    ):
        labels[label.job][label.key] = label.value
    systems: defaultdict[str, list[str]] = defaultdict(list)
    for grant in session.execute(
        select(GrantRow.job, GrantRow.system)
        .where(GrantRow.job.in_(ids))
        .order_by(GrantRow.position)
    ):
        systems[grant.job].append(grant.system)
    return [_line(row, tuple(systems.get(row.id, ())), labels.get(row.id, {})) for row in rows]


def _line(row: _Row, systems: tuple[str, ...], labels: dict[str, str]) -> JobLine:
    values = {name: getattr(row, name) for name in _OWN_COLUMNS}
    typed = {name: make(values[name]) for name, make in _TYPES.items()}
    user = User(uid=row.uid, gid=row.gid, name=row.username)
    return JobLine(**{**values, **typed}, user=user, systems=systems, labels=labels)
