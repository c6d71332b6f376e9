"""Consistent copies of a database that is in use, and their restoration.

A SQLite file is copied as it is, at one moment, by SQLite itself. What a PostgreSQL server holds is
copied table by table within one transaction, so at one moment too, in the server's own text format,
and goes back in one transaction: all of it or nothing. The copy of a SQLite file can go into a
server, too, row by row; what a server wrote cannot go into a file, since only a server reads its
format.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, Table, create_engine, inspect, select, text

from appliance.core.errors import ConflictError, UserError
from appliance.storage.engine.database import Database
from appliance.storage.engine.integrity import damaged, find_damage
from appliance.storage.engine.revisions import revisions
from appliance.storage.schema import access_tables, notification_tables
from appliance.storage.schema.tables import Base

_VERSIONS = "alembic_version"
_BLOCK_BYTES = 1 << 20
_ROWS = 1000
"""Held in memory at a time."""


_TABLES = (access_tables, notification_tables)
"""Modules that add their tables to `Base`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCopy:
    """One table of a server's database in a copy.

    Attributes:
        name: The table; its rows are in the file of that name.
        columns: The columns, in the order in which rows have them.
    """

    name: str
    columns: tuple[str, ...]


def copy_sqlite(path: Path, target: Path) -> str:
    """Copy a SQLite file as it is at this moment, and look at all of the copy.

    Args:
        path: The file; others may write to it meanwhile, and do not wait.
        target: The copy.

    Returns:
        Its revision.

    Raises:
        ClusterError: What was copied is damaged.
    """
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # so that it is one file
    if what := find_damage(target):
        raise damaged(path, what)
    with closing(sqlite3.connect(target)) as copy:
        (revision,) = copy.execute(f"SELECT version_num FROM {_VERSIONS}").fetchone()
    return str(revision)


def copy_server(url: str, directory: Path) -> tuple[str, Sequence[TableCopy]]:
    """Copy what a PostgreSQL server holds of an appliance, as it is at this moment.

    Args:
        url: SQLAlchemy URL.
        directory: Gets one file for each table.

    Returns:
        The revision, and the tables in an order in which they can be filled again.
    """
    engine = create_engine(url, isolation_level="REPEATABLE READ", hide_parameters=True)
    try:
        with engine.begin() as connection:
            connection.execute(text("SET TRANSACTION READ ONLY"))
            revision = connection.scalar(text(f"SELECT version_num FROM {_VERSIONS}"))
            known = MetaData()
            known.reflect(connection)
            tables = [
                TableCopy(name=table.name, columns=tuple(table.columns.keys()))
                for table in known.sorted_tables
                if table.name != _VERSIONS
            ]
            for table in tables:
                _copy_out(connection, table, directory / table.name)
    finally:
        engine.dispose()
    return str(revision), tables


def restore_sqlite(path: Path, revision: str) -> None:
    """Make a copy of a SQLite file a database of this version that nobody has claimed before.

    Raises:
        ClusterError: It is damaged.
        UserError: It is of a newer version.
    """
    check_revision(revision)
    if what := find_damage(path):
        raise damaged(path, what)
    _refuse_programs(path)
    with closing(Database.open_sqlite(path)) as database:
        database.claim()  # whoever wrote when the copy was made may not go on


def _refuse_programs(path: Path) -> None:
    """Refuse a database that does something by itself: no appliance makes such a one."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        kinds = "type IN ('trigger', 'view') OR sql LIKE 'CREATE VIRTUAL%'"
        found = connection.execute(f"SELECT type, name FROM sqlite_master WHERE {kinds}").fetchone()
    if found is not None:
        kind, name = found
        raise UserError(
            f"The copy of the database has a {kind} {name!r}, which no appliance makes.",
            hint="Restore only a backup that your own appliance has made.",
        )


def restore_server(
    url: str, directory: Path, revision: str, tables: Sequence[TableCopy], *, replaces: bool
) -> None:
    """Fill a PostgreSQL database with what was copied, in one transaction.

    Args:
        url: SQLAlchemy URL.
        directory: Has one file for each table.
        revision: Of the copy.
        tables: Them, in the order in which they are filled.
        replaces: Whether what the database holds of an appliance is to go.

    Raises:
        ConflictError: Others are connected to it; or it holds jobs, and `replaces` is not set.
        UserError: The copy is of a newer version.
    """
    check_revision(revision)
    engine = create_engine(url, hide_parameters=True)
    try:
        with engine.begin() as connection:
            _refuse_other_connections(connection)
            _clear(connection, replaces=replaces)
            _upgrade(connection, revision)
            _fill(connection, directory, tables)
            _upgrade(connection, "head")
    finally:
        engine.dispose()
    with closing(Database(url)) as database:
        database.claim()


def move_to_server(url: str, path: Path, revision: str, *, replaces: bool) -> None:
    """Fill a PostgreSQL database with the rows of a copy of a SQLite file, in one transaction.

    Args:
        url: SQLAlchemy URL.
        path: The copy; it is brought to the newest revision.
        revision: Of the copy.
        replaces: Whether what the database holds of an appliance is to go.

    Raises:
        ConflictError: Others are connected to it; or it holds jobs, and `replaces` is not set.
        ClusterError: The copy is damaged.
        UserError: The copy is of a newer version.
    """
    restore_sqlite(path, revision)
    source = create_engine(f"sqlite:///{path}")
    engine = create_engine(url, hide_parameters=True)
    try:
        with source.connect() as rows, engine.begin() as connection:
            _refuse_other_connections(connection)
            _clear(connection, replaces=replaces)
            _upgrade(connection, "head")
            tables = Base.metadata.sorted_tables
            for table in reversed(tables):  # migrations may have put rows there
                connection.execute(table.delete())
            for table in tables:
                _copy_rows(rows, connection, table)
    finally:
        engine.dispose()
        source.dispose()
    with closing(Database(url)) as database:
        database.claim()


def check_revision(revision: str) -> None:
    """Refuse a revision that this version does not know.

    Raises:
        UserError: It is of a newer version.
    """
    known = {each.revision for each in ScriptDirectory.from_config(revisions()).walk_revisions()}
    if revision not in known:
        raise UserError(
            f"The backup is of revision {revision!r}; this version knows up to {max(known)}.",
            hint="Restore it with the version of the appliance that made it, or a newer one.",
        )


def _copy_out(connection: Connection, table: TableCopy, target: Path) -> None:
    columns = ", ".join(map(_quoted, table.columns))
    statement = f"COPY (SELECT {columns} FROM {_quoted(table.name)}) TO STDOUT"
    with _cursor(connection) as cursor, cursor.copy(statement) as rows, target.open("wb") as file:
        for block in rows:
            file.write(block)


def _fill(connection: Connection, directory: Path, tables: Sequence[TableCopy]) -> None:
    for table in reversed(tables):  # migrations may have put rows there
        connection.execute(text(f"DELETE FROM {_quoted(table.name)}"))
    for table in tables:
        columns = ", ".join(map(_quoted, table.columns))
        statement = f"COPY {_quoted(table.name)} ({columns}) FROM STDIN"
        with (
            (directory / table.name).open("rb") as file,
            _cursor(connection) as cursor,
            cursor.copy(statement) as rows,
        ):
            while block := file.read(_BLOCK_BYTES):
                rows.write(block)
        _go_on_counting(connection, table)


def _copy_rows(source: Connection, target: Connection, table: Table) -> None:
    """Copy a table; its columns' types make of a SQLite value what a server stores."""
    found = source.execution_options(yield_per=_ROWS).execute(select(table))
    for rows in found.mappings().partitions():
        target.execute(table.insert(), [dict(row) for row in rows])
    _go_on_counting(target, TableCopy(name=table.name, columns=tuple(table.columns.keys())))


def _go_on_counting(connection: Connection, table: TableCopy) -> None:
    """Let numbers that the server gives rows go on after the last one of the copy."""
    for column in table.columns:
        serial = "SELECT pg_get_serial_sequence(:table, :column)"
        name = connection.scalar(text(serial), {"table": _quoted(table.name), "column": column})
        if name is not None:
            last = f"SELECT max({_quoted(column)}) FROM {_quoted(table.name)}"
            sequence = {"name": name}
            connection.execute(
                text(f"SELECT setval(CAST(:name AS regclass), coalesce(({last}), 0) + 1, false)"),
                sequence,
            )


def _refuse_other_connections(connection: Connection) -> None:
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    if count := connection.scalar(text(others)):
        raise ConflictError(
            f"{count} other connection(s) to the database are open: an appliance, or a proxy of "
            "one, may be running on it.",
            hint="Stop every management and proxy that uses it, and repeat the restore.",
        )


def _clear(connection: Connection, *, replaces: bool) -> None:
    present = set(inspect(connection).get_table_names())
    if _VERSIONS not in present:
        return
    count = connection.scalar(text("SELECT count(*) FROM jobs")) if "jobs" in present else 0
    if count and not replaces:
        raise ConflictError(
            f"The database holds {count:,} job(s) already.",
            hint="Give --replace to put the backup in their place, or another --database.",
        )
    ours = MetaData()
    ours.reflect(connection)
    ours.drop_all(connection)


def _upgrade(connection: Connection, revision: str) -> None:
    config = revisions()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


# `Any`: psycopg's cursor, whose types SQLAlchemy does not know.
def _cursor(connection: Connection) -> Any:  # noqa: ANN401
    raw = connection.connection.driver_connection
    assert raw is not None
    return raw.cursor()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
