"""What has happened to systems, as rows."""

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import delete, select

from appliance.core.cluster.systems import SystemEvent, SystemEventKind
from appliance.core.queries.system_event_filter import SystemEventFilter
from appliance.storage.engine.database import Database
from appliance.storage.schema.tables import SystemEventRow

MAX_EVENTS = 1000


class SystemEventRepository:
    """What has happened to systems, also to those that are gone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, event: SystemEvent) -> None:
        """Store an event."""
        with self._database.transaction() as rows:
            rows.add(
                SystemEventRow(
                    system=event.system,
                    at=event.at,
                    kind=event.kind.value,
                    note=event.note,
                    details=dict(event.details),
                )
            )

    def prune(self, before: dt.datetime, *, limit: int) -> int:
        """Forget events from before a time, the oldest first, at most so many; return how many."""
        old = select(SystemEventRow.id).where(SystemEventRow.at < before)
        with self._database.transaction() as rows:
            found = rows.scalars(old.order_by(SystemEventRow.at).limit(limit)).all()
            rows.execute(delete(SystemEventRow).where(SystemEventRow.id.in_(found)))
        return len(found)

    def list(self, wanted: SystemEventFilter) -> Sequence[SystemEvent]:
        """Return the newest `MAX_EVENTS` events, oldest first."""
        query = select(SystemEventRow)
        if wanted.system:
            query = query.where(SystemEventRow.system == wanted.system)
        if wanted.kind is not None:
            query = query.where(SystemEventRow.kind == wanted.kind.value)
        if wanted.since is not None:
            query = query.where(SystemEventRow.at >= wanted.since)
        if wanted.until is not None:
            query = query.where(SystemEventRow.at < wanted.until)
        newest = query.order_by(SystemEventRow.at.desc(), SystemEventRow.id.desc())
        with self._database.reading() as rows:
            found = [_event(row) for row in rows.scalars(newest.limit(MAX_EVENTS))]
        return found[::-1]


def _event(row: SystemEventRow) -> SystemEvent:
    return SystemEvent(
        system=row.system,
        at=row.at,
        kind=SystemEventKind(row.kind),
        note=row.note,
        details=row.details,
    )
