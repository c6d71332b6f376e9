"""When jobs held systems: what pictures of use over time are drawn from."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import or_, select

from appliance.core.cluster.jobs import JobType
from appliance.storage.engine.database import Database
from appliance.storage.schema.tables import JobRow


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
            JobRow.type.in_((JobType.EXECUTE.value, JobType.SDK_EXECUTE.value)),
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
