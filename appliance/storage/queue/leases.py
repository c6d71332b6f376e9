"""Leases: until when a client counts as alive. A job or workflow has one under its own id."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, insert, select, update

from appliance.core.clock import Clock
from appliance.core.ids import JOB_PREFIX
from appliance.storage.engine.database import Database
from appliance.storage.engine.writes import Statement, Write, replacing
from appliance.storage.schema.tables import LeaseRow, table_of

_LEASES = table_of(LeaseRow)
_NEW = replacing(_LEASES, rank=50)
_GONE = Statement(rank=51, clause=delete(_LEASES).where(_LEASES.c.id == bindparam("of_id")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A time limit on a client's silence; it expires unless it is renewed.

    Attributes:
        id: Id of the job or workflow.
        seconds: How long a renewal lasts.
        holder: The machine that renews it, as it says.
        expires_at: When it runs out.
    """

    id: str
    seconds: int
    holder: str
    expires_at: dt.datetime


class LeaseRepository:
    """All leases that run.

    Args:
        clock: Says what "expired" means.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def grant(self, lease_id: str, *, seconds: int, holder: str = "") -> None:
        """Begin a lease, or begin it anew."""
        expires_at = self._clock.now() + dt.timedelta(seconds=seconds)
        row = {"id": lease_id, "seconds": seconds, "holder": holder, "expires_at": expires_at}
        self._database.write(Write(statement=_NEW, key=f"lease {lease_id}", rows=(row,)))

    def renew(self, lease_id: str, *, holder: str, seconds: int = 0) -> bool:
        """Extend a lease.

        Args:
            lease_id: Id of the job or workflow.
            holder: The machine that renews it.
            seconds: New length of the lease; 0 keeps it.

        Returns:
            False if there is no such lease: it was ended or has run out.
        """
        with self._database.transaction() as session:
            row = session.get(LeaseRow, lease_id, with_for_update=True)
            if row is None:
                return False
            row.seconds = seconds or row.seconds
            row.holder = holder
            row.expires_at = self._clock.now() + dt.timedelta(seconds=row.seconds)
            return True

    def exists(self, lease_id: str) -> bool:
        """Whether there is such a lease; it may have run out a moment ago."""
        with self._database.reading() as session:
            return session.get(LeaseRow, lease_id) is not None

    def end(self, lease_id: str) -> None:
        """End a lease; nothing happens if there is none."""
        row = {"of_id": lease_id}
        self._database.write(Write(statement=_GONE, key=f"lease {lease_id}", rows=(row,)))

    def resume(
        self,
        jobs: Sequence[str],
        *,
        clients: Sequence[str],
        seconds: int,
        grace_seconds: float = 0.0,
    ) -> None:
        """Restart every lease, because clients could not renew theirs while management was down.

        Args:
            jobs: The jobs that have not ended; leases of other jobs end, leases of workflows go on.
            clients: Those of them that have a client; they get a lease if they have none.
            seconds: Length of a new lease.
            grace_seconds: How much longer each lasts this once.
        """
        now = self._clock.now() + dt.timedelta(seconds=grace_seconds)
        unfinished = set(jobs)
        with self._database.transaction() as session:
            known = session.execute(select(LeaseRow.id, LeaseRow.seconds)).all()
            for length in {row.seconds for row in known}:
                expires_at = now + dt.timedelta(seconds=length)
                change = update(_LEASES).where(_LEASES.c.seconds == length)
                session.execute(change.values(expires_at=expires_at))
            ids = {row.id for row in known}
            ended = [n for n in ids if n.startswith(JOB_PREFIX) and n not in unfinished]
            if ended:
                session.execute(_GONE.clause, [{"of_id": name} for name in ended])
            new = sorted(unfinished.intersection(clients) - ids)
            expires_at = now + dt.timedelta(seconds=seconds)
            if new:
                rows = [
                    {"id": job, "seconds": seconds, "holder": "", "expires_at": expires_at}
                    for job in new
                ]
                session.execute(insert(_LEASES), rows)

    def expired(self) -> Sequence[Lease]:
        """Return the leases that have run out."""
        with self._database.reading() as session:
            query = select(LeaseRow).where(LeaseRow.expires_at <= self._clock.now())
            return [
                Lease(id=row.id, seconds=row.seconds, holder=row.holder, expires_at=row.expires_at)
                for row in session.scalars(query)
            ]
