"""Pending writes as values: rows for a statement, many of which are executed together.

A *turn* of the reconciler writes some hundred rows for dozens of jobs. Statement by statement,
with an object for each row, that costs milliseconds of processor a job. So whoever writes says what
shall be written, and all rows of one statement are handed to the database at once.

Order: statements have ranks. Rows of one job (or whatever `key` names) are written in the order in
which they were asked for; others are written by rank, which is how foreign keys want it. Rows that
do not rise in rank within their key are written in rounds: first the first rise of every key, then
the second ones. So a row that others refer to has to be in the first of its key, as a new one is.
"""

import itertools
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Dialect, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase

from appliance.core.errors import InternalError, WscError

# `Any`: values of columns.
Row = Mapping[str, Any]

_MANY_ROWS = 32
_FEW_ROWS = 16
"""Rows of one statement of SQLite: that many, or any number up to this. A statement of each size is
compiled once, and kept by the connection."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Statement:
    """A statement that is carried out for many rows.

    Attributes:
        rank: Where it stands among the statements of one transaction.
        clause: The statement. An update sets the columns that its rows name.
        on_postgresql: The same in another dialect, where one clause does not serve both.
        complaint: Returns the error to raise if a row to be changed does not exist; None accepts
            that.
    """

    rank: int
    clause: UpdateBase
    on_postgresql: UpdateBase | None = None
    complaint: "Callable[[Write], WscError] | None" = None


class Write(NamedTuple):
    """Rows for a statement; a tuple, as a job makes a dozen of them.

    Attributes:
        key: Whatever the rows are of: writes of one key keep their order. Rows to be inserted that
            need none have an empty one.
        rows: Parameters, row by row.
        effect: Called once they are kept, to remember the same in memory.
    """

    statement: Statement
    key: str
    rows: Sequence[Row]
    effect: Callable[[], None] | None = None


class RowMissingError(InternalError):
    """Some row that a group of writes was to change is not there; which one is not known yet."""


def replacing(table: Table, *, rank: int) -> Statement:
    """Return the statement that inserts rows, in place of those of the same primary key."""
    return Statement(
        rank=rank,
        clause=_replacing(table, sqlite.insert(table)),
        on_postgresql=_replacing(table, postgresql.insert(table)),
    )


def _replacing(table: Table, clause: "sqlite.Insert | postgresql.Insert") -> UpdateBase:
    key = list(table.primary_key.columns)
    others = {column.name: clause.excluded[column.name] for column in table.c if column not in key}
    return clause.on_conflict_do_update(index_elements=key, set_=others)


def completing(table: Table, *, rank: int) -> Statement:
    """Return the statement that inserts rows, but for those whose primary key is there already."""
    return Statement(
        rank=rank,
        clause=sqlite.insert(table).on_conflict_do_nothing(),
        on_postgresql=postgresql.insert(table).on_conflict_do_nothing(),
    )


def carry_out(connection: Connection, writes: Iterable[Write]) -> None:
    """Write rows one write after the other.

    Raises:
        WscError: A row that was to be changed is not there; the statement's own complaint.
        StatementError: The database refuses a row.
    """
    for write in writes:
        if _execute(connection, write.statement, write.rows) != len(write.rows):
            complaint = write.statement.complaint
            if complaint is not None:
                raise complaint(write)


def carry_out_together(connection: Connection, writes: Iterable[Write]) -> None:
    """Write rows in as few statements as their order allows.

    Raises:
        RowMissingError: A row that was to be changed is not there.
        StatementError: The database refuses a row.
    """
    rounds: list[dict[Statement, list[Row]]] = [{}]
    places: dict[str, tuple[int, int]] = {}
    for write in writes:
        rank, number = write.statement.rank, 0
        if write.key:
            number, last = places.get(write.key, (0, -1))
            number += last >= rank
            if number == len(rounds):
                rounds.append({})
            places[write.key] = number, rank
        rounds[number].setdefault(write.statement, []).extend(write.rows)
    for groups in rounds:
        _carry_out_groups(connection, groups)


def _carry_out_groups(connection: Connection, groups: Mapping[Statement, Sequence[Row]]) -> None:
    for statement in sorted(groups, key=lambda statement: statement.rank):
        rows = groups[statement]
        changed = _execute(connection, statement, rows)
        if statement.complaint is not None and changed != len(rows):
            raise RowMissingError(f"Of {len(rows)} rows {changed} were there to be changed.")


def _execute(connection: Connection, statement: Statement, rows: Sequence[Row]) -> int:
    if not rows:
        return 0
    compiled = _compile(statement, connection.dialect, tuple(rows[0]))
    bound = compiled.bind(rows)
    if not compiled.is_positional:
        return connection.exec_driver_sql(compiled.sql, bound).rowcount
    return _execute_portions(connection, compiled.sql, bound)


def _execute_portions(connection: Connection, sql: str, bound: Sequence[Sequence[Any]]) -> int:
    """Execute a statement of SQLite for many rows.

    Raises:
        DBAPIError: As SQLAlchemy raises it.
    """
    if not connection.in_transaction():
        connection.begin()
    changed = 0
    for start, size in _portions(len(bound)):
        values = tuple(chain.from_iterable(bound[start : start + size]))
        changed += execute_by_driver(connection, _widened(sql, size), values).rowcount
    return changed


def execute_by_driver(
    connection: Connection, sql: str, values: Sequence[Any] = ()
) -> sqlite3.Cursor:
    """Execute a statement of SQLite by the driver itself, within a transaction or to begin one.

    What SQLAlchemy does around each execution costs several times what SQLite does in it.

    Raises:
        DBAPIError: As SQLAlchemy raises it.
    """
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    try:
        return driver.execute(sql, values)
    except sqlite3.Error as error:
        raised = DBAPIError.instance(
            sql, None, error, sqlite3.Error, hide_parameters=True, dialect=connection.dialect
        )
        raise raised from error


def _portions(count: int) -> Iterator[tuple[int, int]]:
    """Yield begins and sizes of portions: few of them, since each execution is work by itself."""
    start = 0
    while (left := count - start) > 0:
        size = _MANY_ROWS if left >= _MANY_ROWS else min(left, _FEW_ROWS)
        yield start, size
        start += size


@cache
def _widened(sql: str, size: int) -> str:
    """Return a statement of SQLite for one row as one for many rows, no two of the same key.

    The driver gives the interpreter's lock away for each row of an `executemany`. Beside an event
    loop that is busy, taking it back costs several times what SQLite does with the row.
    """
    if size == 1:
        return sql
    if sql.startswith("INSERT"):
        return re.sub(r"VALUES (\([^()]*\))", lambda found: _repeated(found, size), sql, count=1)
    num_values = sql.count("?")
    if sql.startswith("DELETE") and num_values == 1:
        return sql.replace("= ?", f"IN ({', '.join('?' * size)})")
    numbers = itertools.count(1)
    columns = re.sub(r"\?", lambda _: f"given.column{next(numbers)}", sql)
    row = f"({', '.join('?' * num_values)})"
    given = f" FROM (VALUES {', '.join([row] * size)}) AS given WHERE "
    return columns.replace(" WHERE ", given, 1)


def _repeated(found: re.Match[str], size: int) -> str:
    return f"VALUES {', '.join([found[1]] * size)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    """A statement as the driver takes it.

    SQLAlchemy binds the parameters of each row in some twenty calls of its own; this takes one.

    Attributes:
        sql: The text.
        names: Parameters, in the order of the text.
        take: Returns their values, in that order.
        processors: Places of those whose values the driver wants otherwise, and what makes them so.
        constants: Parameters that no row gives.
        is_positional: Whether the driver wants tuples; else dicts.
    """

    sql: str
    names: Sequence[str]
    take: Callable[[Row], Iterable[Any]]
    processors: Sequence[tuple[int, Callable[[Any], Any]]]
    constants: Row
    is_positional: bool

    def bind(self, rows: Sequence[Row]) -> Any:  # noqa: ANN401 - the driver's own types
        """Return the driver's parameters."""
        take, constants = self.take, self.constants
        bound = []
        for row in rows:
            values = list(take({**constants, **row} if constants else row))
            for place, process in self.processors:
                values[place] = process(values[place])
            bound.append(values)
        if self.is_positional:
            return bound
        return [dict(zip(self.names, values, strict=True)) for values in bound]


@cache
def _compile(statement: Statement, dialect: Dialect, columns: tuple[str, ...]) -> _Compiled:
    clause = statement.clause
    if statement.on_postgresql is not None and dialect.name == "postgresql":
        clause = statement.on_postgresql
    compiled = clause.compile(dialect=dialect, column_keys=list(columns))
    assert isinstance(compiled, SQLCompiler)
    names = compiled.positiontup if compiled.positional else list(compiled.binds)
    assert names is not None
    return _Compiled(
        sql=compiled.string,
        names=names,
        take=itemgetter(*names) if len(names) > 1 else lambda row: (row[names[0]],),
        processors=[
            (place, process)
            for place, name in enumerate(names)
            if (process := compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect))
        ],
        constants={
            name: bind.value for name, bind in compiled.binds.items() if name not in columns
        },
        is_positional=compiled.positional,
    )
