"""The connection to the database, its transactions and its schema."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.orm import Session, sessionmaker

SQLITE_BUSY_SECONDS = 30
"""How long a writer waits for another one before SQLite gives up."""


class Database:
    """A database with the current schema.

    Args:
        url: SQLAlchemy URL, as in `sqlite:////data/state.db` or `postgresql+psycopg://...`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
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

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Yield a session; commit at the end of the block, roll back on an exception."""
        with self._writers.begin() as session:
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Yield a session for queries alone; it never waits for a writer on SQLite."""
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
    engine = create_engine(url, connect_args={"timeout": SQLITE_BUSY_SECONDS})
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
