"""Jobs that held resources and have ended, as far as the scheduler learns from them."""

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.run import MOST_ENDS, Aftermath, CompletedSessions
from appliance.storage.schema.tables import JobRow, RunSessionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A job that held resources and has ended.

    Attributes:
        session: Whose quota it counted for.
        user: Whose it was.
        num_systems: Systems that it held.
        program: What it ran.
        started_at: When it was admitted.
        ended_at: When it ended.
        has_succeeded: Whether it succeeded.
        aftermath: How long it went on after its sessions; None if it completed none.
    """

    type: JobType
    session: str
    user: str
    num_systems: int
    program: str
    started_at: dt.datetime
    ended_at: dt.datetime
    has_succeeded: bool
    aftermath: Aftermath | None = None


def past_runs(rows: Session, since: dt.datetime) -> Sequence[PastRun]:
    """Return jobs that ran and ended after a time, in order of their end."""
    columns = (
        *(JobRow.id, JobRow.type, JobRow.session, JobRow.username, JobRow.uid),
        *(JobRow.num_systems, JobRow.requirements, JobRow.started_at, JobRow.ended_at),
        *(JobRow.phase, JobRow.holding),
    )
    query = select(*columns).where(JobRow.ended_at > since, JobRow.started_at.is_not(None))
    sessions = _sessions(rows, since)
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
            aftermath=_aftermath(sessions.get(row.id, ()), row.ended_at),
        )
        for row in rows.execute(query.order_by(JobRow.ended_at))
        if not row.holding.get("is_lookup")
    ]


def _sessions(rows: Session, since: dt.datetime) -> Mapping[str, Sequence[dt.datetime]]:
    """Return when the sessions of each job were over that succeeded after a time, in order.

    Those of an earlier run of a job that was queued again do not count.
    """
    query = (
        select(RunSessionRow.job, RunSessionRow.ended_at)
        .join(JobRow, JobRow.id == RunSessionRow.job)
        .where(JobRow.ended_at > since, JobRow.phase == Phase.SUCCEEDED.value)
        .where(RunSessionRow.ended_at >= JobRow.started_at)
        .order_by(RunSessionRow.job, RunSessionRow.number)
    )
    found: dict[str, list[dt.datetime]] = defaultdict(list)
    for job, ended_at in rows.execute(query):
        assert ended_at is not None
        found[job].append(ended_at)
    return found


def _aftermath(ends: Sequence[dt.datetime], ended_at: dt.datetime) -> Aftermath | None:
    if not ends:
        return None
    seconds = tuple(end.timestamp() for end in ends)
    completed = CompletedSessions(
        count=len(seconds),
        longest_seconds=0.0,
        last_end_seconds=seconds[-1],
        ends_seconds=seconds[:MOST_ENDS],
    )
    return completed.after(ended_at.timestamp())
