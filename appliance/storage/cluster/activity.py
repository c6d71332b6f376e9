"""Times in which jobs held systems, for charts of utilization."""

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import or_, select

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.queries.usage import Span, SystemUse
from appliance.storage.engine.database import Database
from appliance.storage.schema.tables import JobRow, LabelRow

_WITH_SYSTEMS = (JobType.EXECUTE.value, JobType.SDK_EXECUTE.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A job's time with its systems.

    Attributes:
        user: Name of its owner.
        uid: Number of its owner.
        session: Namespace it belongs to.
        num_systems: Systems it held.
        started_at: When it got them.
        ended_at: When it gave them back; None while it has them.
    """

    user: str
    uid: int
    session: str
    num_systems: int
    started_at: dt.datetime
    ended_at: dt.datetime | None


def holdings_since(database: Database, since: dt.datetime) -> Sequence[Holding]:
    """Return every execute job's time with its systems that reaches past `since`, oldest first."""
    query = (
        select(
            JobRow.username,
            JobRow.uid,
            JobRow.session,
            JobRow.num_systems,
            JobRow.started_at,
            JobRow.ended_at,
        )
        .where(
            JobRow.type.in_(_WITH_SYSTEMS),
            JobRow.started_at.is_not(None),
            or_(JobRow.ended_at.is_(None), JobRow.ended_at >= since),
        )
        .order_by(JobRow.started_at)
    )
    with database.reading() as session:
        return [
            Holding(
                user=user,
                uid=uid,
                session=namespace,
                num_systems=num_systems,
                started_at=started_at,
                ended_at=ended_at,
            )
            for user, uid, namespace, num_systems, started_at, ended_at in session.execute(query)
            if started_at is not None
        ]


def uses_between(database: Database, span: Span, *, labels: Sequence[str]) -> Sequence[SystemUse]:
    """Return every job's time with its systems that reaches into a span, oldest first.

    Args:
        database: Where jobs are.
        labels: Of the jobs' labels only these, to read no more than is asked for.
    """
    is_in = (
        JobRow.type.in_(_WITH_SYSTEMS),
        JobRow.started_at < span.until,
        or_(JobRow.ended_at.is_(None), JobRow.ended_at > span.since),
    )
    query = select(
        *(JobRow.id, JobRow.username, JobRow.uid, JobRow.session, JobRow.num_systems),
        *(JobRow.phase, JobRow.started_at, JobRow.ended_at),
    ).where(*is_in)
    found = select(LabelRow.job, LabelRow.key, LabelRow.value).join(JobRow).where(*is_in)
    tags: defaultdict[str, dict[str, str]] = defaultdict(dict)
    with database.reading() as session:
        if labels:
            for job, key, value in session.execute(found.where(LabelRow.key.in_(labels))):
                tags[job][key] = value
        return [
            SystemUse(
                session=row.session,
                user=row.username or str(row.uid),
                labels=tags.get(row.id, {}),
                num_systems=row.num_systems,
                phase=Phase(row.phase),
                started_at=row.started_at,
                ended_at=row.ended_at,
            )
            for row in session.execute(query.order_by(JobRow.started_at))
        ]
