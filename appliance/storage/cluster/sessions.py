"""Sessions and the history of their changes, as rows."""

from collections.abc import Sequence
from dataclasses import fields, replace

from sqlalchemy import select

from appliance.core.clock import Clock
from appliance.core.cluster.records import DEFAULT_SESSION
from appliance.core.cluster.sessions import SessionRecord, SessionSpec, SessionUpdate
from appliance.core.errors import ConflictError, NotFoundError
from appliance.storage.engine.database import Database
from appliance.storage.schema.tables import SessionRow, SessionUpdateRow

_SPEC_FIELDS = tuple(field.name for field in fields(SessionSpec))


class SessionRepository:
    """All sessions.

    Args:
        clock: Gives the times of changes.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def ensure(self, name: str = DEFAULT_SESSION) -> None:
        """Store a session without any quota unless it is known already."""
        with self._database.transaction() as rows:
            if rows.get(SessionRow, name) is None:
                rows.add(self._new(name, SessionSpec()))

    def create(self, name: str, spec: SessionSpec, *, by: str, message: str) -> SessionRecord:
        """Store a new session.

        Raises:
            ConflictError: There is one of that name.
        """
        with self._database.transaction() as rows:
            if rows.get(SessionRow, name) is not None:
                raise ConflictError(
                    f"There is a session {name!r} already.", hint="Update it, or take another name."
                )
            row = self._new(name, spec)
            rows.add(row)
            rows.flush()
            rows.add(self._update(name, by, message))
            return _record(row)

    def list(self) -> Sequence[SessionRecord]:
        """Return all sessions by name."""
        with self._database.reading() as rows:
            return [_record(row) for row in rows.scalars(select(SessionRow).order_by("name"))]

    def find(self, name: str) -> SessionRecord | None:
        """Return a session, or None if there is none of that name."""
        with self._database.reading() as rows:
            row = rows.get(SessionRow, name)
            return None if row is None else _record(row)

    def load(self, name: str) -> SessionRecord:
        """Return a session.

        Raises:
            NotFoundError: There is none of that name.
        """
        if (record := self.find(name)) is None:
            raise no_session(name)
        return record

    def change(
        self, name: str, spec: SessionSpec, *, version: int, by: str, message: str
    ) -> SessionRecord:
        """Store another specification of a session.

        Args:
            name: The session.
            spec: What it may use from now on.
            version: The version on which the change rests.
            by: Who asked for it.
            message: What changed.

        Raises:
            NotFoundError: There is no session of that name.
            ConflictError: It was changed meanwhile.
        """
        with self._database.transaction() as rows:
            row = rows.get(SessionRow, name, with_for_update=True)
            if row is None:
                raise no_session(name)
            if row.version != version:
                raise ConflictError(
                    f"Session {name!r} is at version {row.version}; the change rests on version "
                    f"{version}.",
                    hint="Look at it again and repeat the change.",
                )
            for field, value in _values(spec).items():
                setattr(row, field, value)
            row.version, row.changed_at = version + 1, self._clock.now()
            rows.add(self._update(name, by, message))
            rows.flush()
            return _record(row)

    def delete(self, name: str) -> None:
        """Forget a session.

        Raises:
            NotFoundError: There is none of that name.
        """
        with self._database.transaction() as rows:
            row = rows.get(SessionRow, name)
            if row is None:
                raise no_session(name)
            rows.delete(row)

    def history(self, name: str) -> Sequence[SessionUpdate]:
        """Return a session's changes, oldest first."""
        query = select(SessionUpdateRow).where(SessionUpdateRow.session == name).order_by("id")
        with self._database.reading() as rows:
            return [
                SessionUpdate(session=row.session, at=row.at, by=row.by, message=row.message)
                for row in rows.scalars(query)
            ]

    def _new(self, name: str, spec: SessionSpec) -> SessionRow:
        now = self._clock.now()
        return SessionRow(name=name, created_at=now, changed_at=now, version=1, **_values(spec))

    def _update(self, name: str, by: str, message: str) -> SessionUpdateRow:
        return SessionUpdateRow(session=name, at=self._clock.now(), by=by, message=message)


def no_session(name: str) -> NotFoundError:
    """Return the error that says so."""
    return NotFoundError(
        f"There is no session {name!r}.", hint="`csctl session list` shows the sessions."
    )


def _values(spec: SessionSpec) -> dict[str, object]:
    values = {name: getattr(spec, name) for name in _SPEC_FIELDS}
    values["members"] = list(spec.members)
    values["properties"], values["labels"] = dict(spec.properties), dict(spec.labels)
    return values


def _record(row: SessionRow) -> SessionRecord:
    spec = SessionSpec(**{name: getattr(row, name) for name in _SPEC_FIELDS})
    return SessionRecord(
        name=row.name,
        spec=replace(spec, members=tuple(row.members)),
        created_at=row.created_at,
        changed_at=row.changed_at,
        version=row.version,
    )
