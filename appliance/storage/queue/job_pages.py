"""Lists of jobs, a page at a time, with only the columns that a list shows.

A page costs the same however many jobs there are: it begins where the last one ended (a keyset) and
follows an index in the order of the list, one for all jobs and one for the unfinished. Whoever
looks into the middle of a list gives an offset, which costs a walk along the index: 3 ms for the
10,000th job.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import Session

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.ids import JobId
from appliance.storage.engine.database import Database
from appliance.storage.schema.tables import GrantRow, JobRow, LabelRow

_IS_UNFINISHED = JobRow.ended_at.is_(None)
_UNFINISHED = tuple(phase.value for phase in Phase if not phase.is_terminal)
_GRANTED = tuple(phase.value for phase in Phase if phase.holds_resources)

# `Any`: SQLAlchemy's rows and selects of this many columns have no closer type.
_Row = Any
_Query = Select[Any]

_COLUMNS: tuple[Any, ...] = (
    JobRow.sequence,
    JobRow.id,
    JobRow.type,
    JobRow.session,
    JobRow.workflow,
    JobRow.uid,
    JobRow.username,
    JobRow.priority,
    JobRow.phase,
    JobRow.message,
    JobRow.num_systems,
    JobRow.created_at,
    JobRow.started_at,
    JobRow.ended_at,
)


class JobOrder(StrEnum):
    """Order of a list of jobs."""

    PRIORITY = "priority"
    """By priority, newest first within equal priority; as csctl lists them."""
    NEWEST = "newest"
    OLDEST = "oldest"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job in a list.

    Attributes:
        sequence: Order of submission.
        id: Its id.
        type: Kind of job.
        session: Namespace it belongs to.
        workflow: Workflow it belongs to.
        uid: Numeric id of its owner.
        user: Name of its owner.
        priority: From 0 to 399; lower goes first.
        phase: Where it stands.
        message: Reason of the phase.
        num_systems: Systems it needs.
        systems: Systems it holds or held.
        labels: The user's tags.
        created_at: When it was submitted.
        started_at: When it got its resources.
        ended_at: When it ended.
    """

    sequence: int
    id: JobId
    type: JobType
    session: str
    workflow: str
    uid: int
    user: str
    priority: int
    phase: Phase
    message: str
    num_systems: int
    systems: tuple[str, ...]
    labels: Mapping[str, str]
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place between two jobs of a list: right after this one."""

    priority: int
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFilter:
    """Which jobs to list; conditions combine with "and", empty ones do not count.

    Attributes:
        session: Only of this session.
        workflow: Only of this workflow.
        user: Only of the user of this name.
        uid: Only of the user of this number.
        type: Only of this kind.
        phases: Only in one of these phases; empty for all unfinished.
        with_finished: Finished jobs too; of meaning without `phases` alone.
        system: Only with this system.
        labels: Only with all of these labels.
        text: Only with this text in the id or the owner's name.
        created_after: Only jobs submitted then or later.
        order: Order of the list.
        after: Where to begin; None for the beginning.
        offset: Leave out so many from there on.
        limit: At most so many.
    """

    session: str = ""
    workflow: str = ""
    user: str = ""
    uid: int | None = None
    type: JobType | None = None
    phases: tuple[Phase, ...] = ()
    with_finished: bool = False
    system: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    created_after: dt.datetime | None = None
    order: JobOrder = JobOrder.PRIORITY
    after: Place | None = None
    offset: int = 0
    limit: int = 100


class JobPages:
    """Pages of jobs.

    Args:
        database: Where they are kept.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, wanted: PageFilter) -> Sequence[JobLine]:
        """Return the jobs of one page."""
        query: _Query = select(*_COLUMNS).where(*_conditions(wanted))
        query = _ordered(query, wanted).offset(wanted.offset).limit(wanted.limit)
        with self._database.reading() as session:
            return _lines(session, session.execute(query).all())

    def count(self, wanted: PageFilter) -> int:
        """Return how many jobs there are on all pages together."""
        query = select(func.count()).select_from(JobRow).where(*_conditions(wanted))
        with self._database.reading() as session:
            return session.scalar(query) or 0

    def lines(self, jobs: Iterable[JobId]) -> Sequence[JobLine]:
        """Return those of some jobs that still exist."""
        query: _Query = select(*_COLUMNS).where(JobRow.id.in_(list(jobs)))
        with self._database.reading() as session:
            return _lines(session, session.execute(query).all())

    def unfinished(self) -> frozenset[JobId]:
        """Return the ids of all jobs that have not ended."""
        query = select(JobRow.id).where(_IS_UNFINISHED)
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


def _lines(session: Session, rows: Sequence[_Row]) -> list[JobLine]:
    ids = [str(row[1]) for row in rows]
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
    return [_line(row, tuple(systems[row.id]), labels[row.id]) for row in rows]


def _line(row: _Row, systems: tuple[str, ...], labels: dict[str, str]) -> JobLine:
    return JobLine(
        sequence=row.sequence,
        id=JobId(row.id),
        type=JobType(row.type),
        session=row.session,
        workflow=row.workflow,
        uid=row.uid,
        user=row.username,
        priority=row.priority,
        phase=Phase(row.phase),
        message=row.message,
        num_systems=row.num_systems,
        systems=systems,
        labels=labels,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def _conditions(wanted: PageFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    for column, value in (
        (JobRow.session, wanted.session),
        (JobRow.workflow, wanted.workflow),
        (JobRow.username, wanted.user),
    ):
        if value:
            conditions.append(column == value)
    if wanted.uid is not None:
        conditions.append(JobRow.uid == wanted.uid)
    if wanted.type is not None:
        conditions.append(JobRow.type == wanted.type.value)
    conditions += _of_phases(wanted)
    if wanted.created_after is not None:
        conditions.append(JobRow.created_at >= wanted.created_after)
    return conditions + _membership(wanted)


def _of_phases(wanted: PageFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of phases, in words that let the database take the best index.

    Jobs of most phases are few, and the index of phases finds them. Waiting ones are many, and are
    found in the order of the list if nothing but the phases that are left out is said of them.
    """
    phases = [phase.value for phase in wanted.phases]
    if not phases:
        return [] if wanted.with_finished else [_IS_UNFINISHED]
    if Phase.QUEUED in phases and set(phases) <= set(_UNFINISHED):
        others = [phase for phase in _UNFINISHED if phase not in phases]
        return [_IS_UNFINISHED, JobRow.phase.not_in(others)]
    return [JobRow.phase.in_(phases)]


def _membership(wanted: PageFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.system:
        held = select(GrantRow.job).where(GrantRow.system == wanted.system)
        conditions.append(JobRow.id.in_(held))
    for key, value in wanted.labels.items():
        tagged = select(LabelRow.job).where(LabelRow.key == key, LabelRow.value == value)
        conditions.append(JobRow.id.in_(tagged))
    if wanted.text:
        is_like = JobRow.id.contains(wanted.text, autoescape=True)
        conditions.append(is_like | JobRow.username.contains(wanted.text, autoescape=True))
    return conditions


def _ordered(query: _Query, wanted: PageFilter) -> _Query:
    after = wanted.after
    match wanted.order:
        case JobOrder.PRIORITY:
            if after is not None:
                query = query.where(
                    JobRow.priority >= after.priority,  # where the index begins
                    or_(
                        JobRow.priority > after.priority,
                        and_(JobRow.priority == after.priority, JobRow.sequence < after.sequence),
                    ),
                )
            return query.order_by(JobRow.priority, JobRow.sequence.desc())
        case JobOrder.NEWEST:
            if after is not None:
                query = query.where(JobRow.sequence < after.sequence)
            return query.order_by(JobRow.sequence.desc())
        case JobOrder.OLDEST:
            if after is not None:
                query = query.where(JobRow.sequence > after.sequence)
            return query.order_by(JobRow.sequence)
