"""Subscriptions to notifications about jobs, and undelivered notifications.

The events of jobs are the source: a phase change writes its event in its own transaction, and
`gather` turns the events that nobody has looked at into deliveries. So nothing is lost when
management ends in between, and moving a job costs nothing more.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Select, delete, func, or_, select, update
from sqlalchemy.orm import Session

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.notifications import Alert, Channel, News, Target, news_of, wants
from appliance.core.cluster.run import NOT_FINITE_EVENT
from appliance.core.ids import JobId
from appliance.storage.engine.database import Database
from appliance.storage.schema.notification_tables import DeliveryRow, FollowedJobRow
from appliance.storage.schema.tables import EventRow

_MAX_EVENTS = 500
_LATE = 1000
"""Newest events that are looked at again: PostgreSQL may keep them out of the order of ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A notice that is to be sent to one target.

    Attributes:
        id: Its number.
        job: The job it tells of.
        target: Who is told.
        news: What the job has entered, or what is the matter with it.
        message: Why.
        at: When.
        num_attempts: How often it was tried in vain.
    """

    id: int
    job: JobId
    target: Target
    news: News
    message: str
    at: dt.datetime
    num_attempts: int


class NotificationRepository:
    """Targets and deliveries."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looked = 0
        self._is_used: bool | None = None

    def follow(self, job: JobId, targets: Sequence[Target]) -> None:
        """Subscribe targets to the events of a job from now on."""
        if not targets:
            return
        self._is_used = True
        with self._database.transaction() as rows:
            seen = rows.scalar(select(func.max(EventRow.id)).where(EventRow.job == job))
            rows.add(FollowedJobRow(job=job, targets=[asdict(each) for each in targets], seen=seen))

    def is_used(self) -> bool:
        """Whether there may be anything to do, so that the database is not queried in vain.

        Subscriptions of an earlier management are looked up once; this one is the only writer.
        """
        if self._is_used is None:
            with self._database.reading() as rows:
                kept = (select(row.job).limit(1) for row in (FollowedJobRow, DeliveryRow))
                is_used = any(rows.scalar(query) is not None for query in kept)
            # Somebody may have been followed meanwhile.
            self._is_used = bool(self._is_used) or is_used
        return self._is_used

    def gather(self, now: dt.datetime) -> int:
        """Make deliveries of what has happened to followed jobs; return of how many events."""
        with self._database.reading() as rows:
            newest = rows.scalar(select(func.max(EventRow.id))) or 0
            if not rows.execute(_unseen(self._looked).limit(1)).first():
                self._looked = max(0, newest - _LATE)
                return 0
        with self._database.transaction() as rows:
            found = rows.execute(_unseen(self._looked).limit(_MAX_EVENTS)).all()
            for event, targets in found:
                _take(rows, event, [_target(each) for each in targets], now)
            return len(found)

    def due(self, now: dt.datetime, limit: int) -> Sequence[Delivery]:
        """Return what is to be sent now, the longest due first."""
        query = select(DeliveryRow).where(DeliveryRow.due_at <= now).order_by(DeliveryRow.due_at)
        with self._database.reading() as rows:
            return [_delivery(row) for row in rows.scalars(query.limit(limit))]

    def next_due(self) -> dt.datetime | None:
        """Return when the next is to be sent; None if there is none."""
        with self._database.reading() as rows:
            return rows.scalar(select(func.min(DeliveryRow.due_at)))

    def done(self, delivery: int) -> None:
        """Forget a delivery that was sent, or given up."""
        with self._database.transaction() as rows:
            rows.execute(delete(DeliveryRow).where(DeliveryRow.id == delivery))

    def postpone(self, delivery: int, until: dt.datetime) -> None:
        """Try a delivery again later."""
        attempts = DeliveryRow.num_attempts + 1
        change = update(DeliveryRow).where(DeliveryRow.id == delivery)
        with self._database.transaction() as rows:
            rows.execute(change.values(num_attempts=attempts, due_at=until))


# `Any`: a list of JSON objects.
def _unseen(after: int) -> "Select[tuple[EventRow, list[dict[str, Any]]]]":
    return (
        select(EventRow, FollowedJobRow.targets)
        .join(FollowedJobRow, FollowedJobRow.job == EventRow.job)
        .where(
            EventRow.id > after,
            EventRow.id > FollowedJobRow.seen,
            or_(EventRow.phase.is_not(None), EventRow.reason == NOT_FINITE_EVENT),
        )
        .order_by(EventRow.id)
    )


def _take(rows: Session, event: EventRow, targets: Sequence[Target], now: dt.datetime) -> None:
    """Make the deliveries of one event, and note that it was seen."""
    news = Alert.NOT_FINITE if event.phase is None else Phase(event.phase)
    rows.add_all(
        DeliveryRow(
            job=event.job,
            target=asdict(target),
            phase=news.value,
            message=event.message,
            at=event.at,
            num_attempts=0,
            due_at=now,
        )
        for target in targets
        if wants(target, news)
    )
    followed = FollowedJobRow.job == event.job
    if isinstance(news, Phase) and news.is_terminal:
        rows.execute(delete(FollowedJobRow).where(followed))
    else:
        rows.execute(update(FollowedJobRow).where(followed).values(seen=event.id))


def _delivery(row: DeliveryRow) -> Delivery:
    return Delivery(
        id=row.id,
        job=JobId(row.job),
        target=_target(row.target),
        news=news_of(row.phase),
        message=row.message,
        at=row.at,
        num_attempts=row.num_attempts,
    )


# `Any`: a JSON object.
def _target(fields: dict[str, Any]) -> Target:
    return Target(**{**fields, "channel": Channel(fields["channel"])})
