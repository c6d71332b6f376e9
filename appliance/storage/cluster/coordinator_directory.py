"""Looks up coordinators' addresses, for the proxy, which knows nothing else about jobs."""

from typing import Any

from sqlalchemy import Engine, create_engine, inspect, make_url, select

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import CoordinatorAddress
from appliance.core.ids import JobId
from appliance.storage.schema.access_tables import ProxyKeyRow
from appliance.storage.schema.tables import JobRow

_ENDED = frozenset(phase.value for phase in Phase if phase.is_terminal)
_POOL_CONNECTIONS = 2
_POSTGRESQL: dict[str, Any] = {  # Any: what libpq takes
    "connect_timeout": 5,
    "tcp_user_timeout": 5000,
    "options": "-c default_transaction_read_only=on -c statement_timeout=5000",
}


class CoordinatorDirectory:
    """Finds coordinators in a database that management writes.

    It only reads six columns and does not migrate the schema, so it may be older or newer than
    management. Anyone who connects to the proxy causes a lookup, so connections are few and time is
    limited.

    Args:
        url: SQLAlchemy URL of the database.
    """

    def __init__(self, url: str) -> None:
        self._engine = _open(url)

    def find(self, job: JobId) -> CoordinatorAddress | None:
        """Return where a job's coordinator is; None if the job is unknown or has ended.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database does not answer.
        """
        query = select(
            JobRow.phase, JobRow.service_address, JobRow.service_authority, JobRow.uid
        ).where(JobRow.id == job)
        with self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
        if row is None or row.phase in _ENDED:
            return None
        return CoordinatorAddress(
            address=row.service_address, authority=row.service_authority, owner_uid=row.uid
        )

    def proxy_key(self) -> bytes:
        """Return what management believes proxies by; empty if it is of before there was one.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database does not answer.
        """
        with self._engine.connect() as connection:
            if not inspect(connection).has_table(ProxyKeyRow.__tablename__):
                return b""
            return bytes.fromhex(connection.scalar(select(ProxyKeyRow.key)) or "")

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _open(text: str) -> Engine:
    url, limits = make_url(text), {"pool_size": _POOL_CONNECTIONS, "max_overflow": 0}
    if url.get_backend_name() != "sqlite":
        return create_engine(
            url,
            pool_pre_ping=True,
            pool_timeout=5,
            hide_parameters=True,
            connect_args=_POSTGRESQL,
            **limits,
        )
    # A file that is not there yet must not be made: it is to be readable for management alone.
    read_only = url.set(database=f"file:{url.database}", query={"mode": "ro", "uri": "true"})
    return create_engine(read_only, hide_parameters=True, **limits)
