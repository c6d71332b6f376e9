"""The connection to the database, its transactions and its schema."""

import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.orm import Session, sessionmaker

from appliance.core.errors import InternalError, StaleWriterError
from appliance.storage.tables import WriterRow

SQLITE_BUSY_SECONDS = 30
"""How long a writer waits for another process before SQLite gives up."""

_POOL_CONNECTIONS = 32
"""Connections kept open: one for each thread that serves calls, and some."""


class Database:
    """A database with the current schema.

    Args:
        url: SQLAlchemy URL, as in `sqlite:////data/state.db` or `postgresql+psycopg://...`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._token = ""
        self._local = threading.local()
        self._turn = threading.Lock() if url.startswith("sqlite") else None
        self._engine = _create_engine(url)
        self._writers = sessionmaker(self._engine, expire_on_commit=False)
        self._readers = sessionmaker(self._engine.execution_options(wsc_reads_only=True))

    @classmethod
    def open_sqlite(cls, path: Path) -> "Database":
        """Open or create an SQLite file and bring its schema up to date."""
        database = cls(f"sqlite:///{path}")
        database.migrate()
        return database

    def migrate(self) -> None:
        """Bring the schema to the newest revision."""
        scripts = resources.files("appliance.storage") / "migrations"
        config = Config()
        config.set_main_option("script_location", str(scripts))
        with self._engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def claim(self) -> None:
        """Become the one who writes; whoever was it before is refused from now on."""
        token = secrets.token_hex(16)
        with self._writers.begin() as session:
            session.merge(WriterRow(id=1, token=token))
        self._token = token

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make one transaction of all that this thread reads and writes in the block.

        Nothing is begun before the first statement.

        Raises:
            StaleWriterError: Another management has claimed the database since this one did.
        """
        if self._current is not None:
            raise InternalError("A batch of statements was begun within another one.")
        with self._writers() as session:
            self._local.session = session
            try:
                yield
                session.commit()
            finally:
                self._local.session = None
                session.close()
                self._release()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Within a batch, undo what the block wrote if it raises; the rest of the batch stays."""
        session = self._current
        if session is None:
            yield
            return
        self._begin(session)
        with session.begin_nested():
            yield

    @property
    def _current(self) -> Session | None:
        session: Session | None = getattr(self._local, "session", None)
        return session

    def _begin(self, session: Session) -> None:
        """Begin a batch's transaction at its first statement."""
        if session.in_transaction():
            return
        self._acquire()
        if self._token:
            self._check_token(session)

    def _acquire(self) -> None:
        """Wait for this process's turn to write, where there is one writer at a time.

        SQLite itself lets writers wait by asking again ever more rarely, which with many threads
        costs more than writing.
        """
        if self._turn is not None:
            self._turn.acquire()
            self._local.has_turn = True

    def _release(self) -> None:
        if self._turn is not None and getattr(self._local, "has_turn", False):
            self._local.has_turn = False
            self._turn.release()

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Yield a session; commit at the end of the block, roll back on an exception.

        Raises:
            StaleWriterError: Another management has claimed the database since this one did.
        """
        if (batch := self._current) is not None:
            self._begin(batch)
            yield batch
            batch.flush()
            return
        self._acquire()
        try:
            with self._writers.begin() as session:
                if self._token:
                    self._check_token(session)
                yield session
        finally:
            self._release()

    def _check_token(self, session: Session) -> None:
        # The row is locked for sharing where locks are by row; SQLite's write lock is held anyway.
        query = "SELECT token FROM writers WHERE id = 1"
        if self._turn is None:
            query += " FOR SHARE"
        if session.connection().exec_driver_sql(query).scalar() != self._token:
            raise StaleWriterError(
                "Another management has taken over this database; this one may not write any more.",
                hint="Nothing is to be done: the other one goes on with every job.",
            )

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Yield a session for queries alone; outside a batch it never waits for a writer."""
        if (batch := self._current) is not None:
            self._begin(batch)
            yield batch
            return
        with self._readers() as session:
            yield session

    @property
    def engine(self) -> Engine:
        """The engine, for tests and migrations."""
        return self._engine

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _create_engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(
        url, connect_args={"timeout": SQLITE_BUSY_SECONDS}, pool_size=_POOL_CONNECTIONS
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_immediate)
    return engine


# `Any`: SQLAlchemy hands its listeners untyped arguments.
def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:  # noqa: ANN401
    connection.isolation_level = None  # the driver must not begin transactions of its own
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_immediate(connection: Any) -> None:  # noqa: ANN401 - see above
    # A transaction that reads first and writes later would fail at once, without waiting, when
    # another one wrote in between; taking the write lock at the start makes it wait instead.
    reads_only = connection.get_execution_options().get("wsc_reads_only", False)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")
