"""The connection to the database, its transactions and its schema."""

import asyncio
import json
import os
import secrets
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from appliance.core.errors import InternalError, StaleWriterError, UserError
from appliance.storage.engine.batches import Batch, OnFailure, OpenStep
from appliance.storage.engine.integrity import cannot_write, check_file, in_sentences
from appliance.storage.engine.revisions import revisions
from appliance.storage.engine.writes import Write, execute_by_driver
from appliance.storage.schema.tables import WriterRow

SQLITE_BUSY_SECONDS = 30
"""How long a writer waits for another process before SQLite gives up."""

_CHECKPOINT_PAGES = 8000
"""Pages of 4 KiB in SQLite's log before they are moved into the database: a moderate 32 MiB, as a
job at the front of the queue changes some dozens and each move waits for the disk."""

_CACHE_KIB = 8192
"""Memory for pages that each connection to SQLite may use."""

_SHRINKS_EVERY = 500
"""Transactions of a connection to SQLite after which it gives its pages back. Rows that nobody
reads again would fill its memory else, a fifth of a KiB for each step of a job that trains."""

_STATEMENTS = 512
"""Compiled statements that each connection to SQLite keeps: some twenty, of up to 17 sizes each."""

_Answer = TypeVar("_Answer")

# `Any`: whatever arguments the question takes.
InThread = Callable[..., Coroutine[Any, Any, _Answer]]

_LAST_BEFORE_RELEASES = "1184d145"
"""The last commit whose migrations begin with the first schema."""
_POOL_CONNECTIONS = 32
"""Connections kept open: one for each thread that serves calls, and some."""


class WouldWaitError(Exception):
    """The answer is not in memory: the caller must repeat the query in a thread that may block."""


class _OfThread(threading.local):
    """What holds for one thread.

    Attributes:
        batch: The batch that it has begun.
        is_hasty: Whether it may not wait.
        has_turn: Whether it is its turn to write.
    """

    batch: Batch | None = None
    is_hasty: bool = False
    has_turn: bool = False


class _Hasty:
    """Lets a thread not wait while a block runs; no generator, as every call asks several times.

    Args:
        local: What holds for each thread.
    """

    __slots__ = ("_local",)

    def __init__(self, local: _OfThread) -> None:
        self._local = local

    def __enter__(self) -> None:
        """Begin the block."""
        self._local.is_hasty = True

    def __exit__(self, *_: object) -> None:
        """End the block."""
        self._local.is_hasty = False


class Database:
    """A database with the current schema.

    Args:
        url: SQLAlchemy URL, as in `sqlite:////data/state.db` or `postgresql+psycopg://...`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._token = ""
        self._local = _OfThread()
        self._hasty = _Hasty(self._local)
        self._turn = threading.Lock() if url.startswith("sqlite") else None
        self._engine = _create_engine(url)
        self._writers = sessionmaker(self._engine, expire_on_commit=False)
        self._readers = sessionmaker(self._engine.execution_options(wsc_reads_only=True))

    @classmethod
    def open_sqlite(cls, path: Path) -> "Database":
        """Open or create an SQLite file and bring its schema up to date.

        Raises:
            ClusterError: The file is damaged or empty, or cannot be written to.
        """
        with in_sentences(path):
            if not path.exists() and cls._create_sqlite(path):
                return cls(f"sqlite:///{path}")
            check_file(path)
            return cls.open(f"sqlite:///{path}")

    @classmethod
    def _create_sqlite(cls, path: Path) -> bool:
        """Make a file that has the schema before it has its name; False if there is one by then."""
        try:
            descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
        except OSError as error:
            raise cannot_write(path, error.strerror or str(error)) from error
        os.close(descriptor)  # readable by its owner alone: it holds keys of notifications
        try:
            cls.open(f"sqlite:///{name}").close()
            try:
                os.link(name, path)
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                Path(name).rename(path)
        finally:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{name}{suffix}").unlink(missing_ok=True)
        return True

    @classmethod
    def open(cls, url: str) -> "Database":
        """Open a database and bring its schema up to date."""
        database = cls(url)
        database.migrate()
        return database

    def migrate(self) -> None:
        """Bring the schema to the newest revision.

        Raises:
            UserError: It is of a newer version of the appliance.
        """
        config = revisions()
        with self._engine.begin() as connection:
            config.attributes["connection"] = connection
            _check_revision(connection, config)
            command.upgrade(config, "head")

    def claim(self) -> None:
        """Become the only writer; writes of the previous one are rejected from now on."""
        token = secrets.token_hex(16)
        with self._writers.begin() as session:
            session.merge(WriterRow(id=1, token=token))
        self._token = token

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Run all reads and writes of this thread in the block as one transaction.

        The transaction begins with the first read; writes alone wait for the end of the block.

        Raises:
            StaleWriterError: Another management has claimed the database since this one did.
        """
        if self._batch is not None:
            raise InternalError("A batch of statements was begun within another one.")
        self.about_to_wait()
        batch = self._local.batch = Batch(self._begin)
        is_committed = False
        try:
            yield
            batch.settle()
            is_committed = True
        finally:
            self._local.batch = None
            try:
                batch.close(is_committed=is_committed)
            finally:
                self._release()
        batch.take_effect()

    def step(self, on_failure: OnFailure | None = None) -> AbstractContextManager[None]:
        """Within a batch, roll back only what the block wrote if it raises.

        Args:
            on_failure: Called when the database refuses what the block wrote, which may turn out
                only at the end of the batch; without it the whole batch fails then.
        """
        batch = self._batch
        return nullcontext() if batch is None else OpenStep(batch, on_failure)

    def write(self, *writes: Write) -> None:
        """Write rows: in a batch at its end, together with others; else at once.

        Raises:
            WscError: Outside a batch, a row that was to be changed is not there.
            StaleWriterError: Another management has claimed the database since this one did.
        """
        batch = self._batch
        if batch is None:
            with self.batch():
                self.write(*writes)
            return
        for write in writes:
            batch.add(write)

    def takes_writes(self) -> bool:
        """Return whether the database accepts writes now.

        Raises:
            StaleWriterError: Another management has claimed the database since this one did.
        """
        try:
            with self.transaction() as session:
                for token in ("", self._token):  # SQLite writes no page that stays as it is
                    session.execute(update(WriterRow).values(token=token))
        except SQLAlchemyError:
            return False
        return True

    def settle(self) -> None:
        """In a batch, execute the collected writes now, and raise their errors."""
        if self._batch is not None:
            self._batch.settle()

    def scalar(self, sql: str) -> Any:  # noqa: ANN401 - whatever the column has
        """In a batch, return the single value of a query, which does not see collected writes."""
        if self._batch is None:
            raise InternalError("A query of one value was made outside a batch.")
        return self._scalar(self._batch.connection, sql)

    def after_commit(self, effect: Callable[[], None]) -> None:
        """Call a function once this thread's writes are committed; outside a batch, immediately."""
        if self._batch is None:
            effect()
        else:
            self._batch.after_commit(effect)

    @property
    def batch_number(self) -> int:
        """A number unique to this batch; 0 outside a batch."""
        return 0 if (batch := self._batch) is None else batch.number

    def without_waiting(self) -> AbstractContextManager[None]:
        """In the block, raise `WouldWaitError` instead of waiting for the database."""
        return self._hasty

    @property
    def _batch(self) -> Batch | None:
        return self._local.batch

    def _begin(self) -> Connection:
        """Begin a batch's transaction."""
        self._acquire()
        connection = self._engine.connect()
        try:
            connection.begin()
            if self._token:
                self._check_token(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _joined(self, batch: Batch) -> Session:
        """Return a session in the batch's transaction, after executing the collected writes."""
        batch.settle()
        return Session(
            batch.connection, join_transaction_mode="rollback_only", expire_on_commit=False
        )

    def about_to_wait(self) -> None:
        """Announce a slow operation; raises `WouldWaitError` where waiting is not allowed."""
        if self._local.is_hasty:
            raise WouldWaitError

    def _acquire(self) -> None:
        """Wait for this thread's turn to write, where one thread writes at a time.

        SQLite lets writers wait by polling with growing pauses, which with many threads costs more
        than writing.
        """
        if self._turn is not None and not self._local.has_turn:
            self._turn.acquire()
            self._local.has_turn = True

    def _release(self) -> None:
        if self._turn is not None and self._local.has_turn:
            self._local.has_turn = False
            self._turn.release()

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Yield a session; commit at the end of the block, roll back on an exception.

        Raises:
            StaleWriterError: Another management has claimed the database since this one did.
        """
        if (batch := self._batch) is not None:
            batch.is_touched = True
            with self._joined(batch) as session:
                yield session
                session.flush()
            return
        self.about_to_wait()
        self._acquire()
        try:
            with self._writers.begin() as session:
                if self._token:
                    self._check_token(session.connection())
                yield session
        finally:
            self._release()

    def _check_token(self, connection: Connection) -> None:
        # The row is locked for sharing where locks are by row; SQLite's write lock is held anyway.
        query = "SELECT token FROM writers WHERE id = 1"
        if self._turn is None:
            query += " FOR SHARE"
        if self._scalar(connection, query) != self._token:
            raise StaleWriterError(
                "Another management has taken over this database; this one may not write any more.",
                hint="Nothing is to be done: the other one goes on with every job.",
            )

    def _scalar(self, connection: Connection, sql: str) -> Any:  # noqa: ANN401 - see `scalar`
        if self._turn is None:
            return connection.exec_driver_sql(sql).scalar()
        row = execute_by_driver(connection, sql).fetchone()
        return None if row is None else row[0]

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Yield a session for queries alone; outside a batch it never waits for a writer."""
        if (batch := self._batch) is not None:
            with self._joined(batch) as session:
                yield session
            return
        self.about_to_wait()
        with self._readers() as session:
            yield session

    @property
    def engine(self) -> Engine:
        """The engine, for tests and migrations."""
        return self._engine

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


async def ask(
    database: Database,
    question: Callable[..., _Answer],
    *arguments: object,
    in_thread: InThread[_Answer] = asyncio.to_thread,
) -> _Answer:
    """Ask a question at once if it needs not wait for the database, else in a thread.

    Args:
        database: What the question may wait for.
        question: A function that changes nothing before it waits, since it may be called twice.
        arguments: Its arguments.
        in_thread: Runs it in a thread.
    """
    try:
        with database.without_waiting():
            return question(*arguments)
    except WouldWaitError:
        return await in_thread(question, *arguments)


def _create_engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(
            url, pool_pre_ping=True, pool_size=_POOL_CONNECTIONS, hide_parameters=True
        )
    engine = create_engine(
        url,
        hide_parameters=True,  # some are secrets, and errors are logged
        connect_args={"timeout": SQLITE_BUSY_SECONDS, "cached_statements": _STATEMENTS},
        pool_size=_POOL_CONNECTIONS,
        pool_use_lifo=True,  # the connection that wrote last has its pages at hand
        json_serializer=_json_text,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_immediate)
    return engine


# `Any`: a value of a column of JSON.
def _json_text(value: Any) -> str:  # noqa: ANN401
    """Return a value as JSON; most are empty objects, one for each pod and each job."""
    return "{}" if value == {} else json.dumps(value)


# `Any`: SQLAlchemy hands its listeners untyped arguments.
def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:  # noqa: ANN401
    connection.isolation_level = None  # the driver must not begin transactions of its own
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")
    # What undoes a statement of many rows that fails midway would be a new file for each of them.
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")


def _begin_immediate(connection: Connection) -> None:
    # A transaction that reads first and writes later would fail at once, without waiting, when
    # another one wrote in between; taking the write lock at the start makes it wait instead.
    connection.info["wsc_begun"] = begun = connection.info.get("wsc_begun", 0) + 1
    if begun % _SHRINKS_EVERY == 0:
        execute_by_driver(connection, "PRAGMA shrink_memory")
    reads_only = connection.get_execution_options().get("wsc_reads_only", False)
    execute_by_driver(connection, "BEGIN" if reads_only else "BEGIN IMMEDIATE")


def _check_revision(connection: Connection, config: Config) -> None:
    """Refuse a schema that this version does not know."""
    known = {each.revision for each in ScriptDirectory.from_config(config).walk_revisions()}
    for revision in MigrationContext.configure(connection).get_current_heads():
        if revision not in known and revision < min(known):
            raise UserError(
                f"The database is of revision {revision!r}, from before release 0.1.0; this "
                f"version of the appliance takes {min(known)!r} and later.",
                hint=f"Start commit {_LAST_BEFORE_RELEASES} once, which brings it up to date.",
            )
        if revision not in known:
            raise UserError(
                f"The database is of revision {revision!r}; this version of the appliance knows up "
                f"to {max(known)!r}.",
                hint="Start the version that it was used with, or restore a backup from before.",
            )
