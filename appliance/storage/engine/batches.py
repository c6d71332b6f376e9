"""A transaction in steps: writes are collected, and executed together at its end.

If the database rejects them, they are executed again step by step: the step with the error is
rolled back, the others are kept. If the database itself has failed (full, read-only, unreachable),
the whole batch fails. A read within a batch first executes the collected writes, so that it sees
them.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection, NestedTransaction
from sqlalchemy.exc import StatementError

from appliance.core.errors import WscError
from appliance.storage.engine.write_failures import is_of_database
from appliance.storage.engine.writes import Write, carry_out, carry_out_together

OnFailure = Callable[[Exception], None]

_NUMBERS = itertools.count(1)


@dataclass(slots=True, kw_only=True)
class Step:
    """Writes that are committed together or not at all.

    Attributes:
        on_failure: Called if the database rejects them at the end of the batch; without it, the
            whole batch fails.
        writes: Writes not yet executed.
        written: Writes already executed because of a read.
    """

    on_failure: OnFailure | None = None
    writes: list[Write] = field(default_factory=list)
    written: list[Write] = field(default_factory=list)


class OpenStep:
    """A step of a batch for as long as a block runs; one that raises is undone.

    There are several for each job, so it is no generator, which would take three times as long.

    Args:
        on_failure: See `Step`.
    """

    __slots__ = ("_batch", "_on_failure")

    def __init__(self, batch: "Batch", on_failure: OnFailure | None) -> None:
        self._batch = batch
        self._on_failure = on_failure

    def __enter__(self) -> None:
        """Begin the step."""
        self._batch.open_step(self._on_failure)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the step."""
        if kind is None:
            self._batch.close_step()
        else:
            self._batch.abandon_step()


class Batch:
    """The writes that one thread has collected for one transaction.

    Args:
        begin: Begins the transaction.

    Attributes:
        number: Another one for every batch.
        is_touched: Whether anything was written in the transaction already.
    """

    def __init__(self, begin: Callable[[], Connection]) -> None:
        self._connection: Connection | None = None
        self._begin = begin
        self.number = next(_NUMBERS)
        self._kept: list[Write] = []
        self._effects: list[Callable[[], None]] = []
        self._closed: list[Step] = []
        self._open: Step | None = None
        self._savepoint: NestedTransaction | None = None
        self.is_touched = False

    @property
    def connection(self) -> Connection:
        """The connection on which the transaction has begun, now if it had not."""
        if self._connection is None:
            self._connection = self._begin()
        return self._connection

    def close(self, *, is_committed: bool) -> None:
        """End the transaction, if it has begun."""
        if self._connection is None:
            return
        try:
            if is_committed:
                self._connection.commit()
        finally:
            self._connection.close()

    def add(self, write: Write) -> None:
        """Collect a write; outside a step its failure fails the batch."""
        if self._open is not None:
            self._open.writes.append(write)
        elif self._closed and self._closed[-1].on_failure is None:
            self._closed[-1].writes.append(write)
        else:
            self._closed.append(Step(writes=[write]))

    def after_commit(self, effect: Callable[[], None]) -> None:
        """Call a function once the batch is committed."""
        self._effects.append(effect)

    def open_step(self, on_failure: OnFailure | None) -> None:
        """Begin a step."""
        self._open = Step(on_failure=on_failure)

    def close_step(self) -> None:
        """End a step successfully."""
        step, self._open = self._open, None
        assert step is not None
        if self._savepoint is not None:
            self._savepoint.commit()
            self._savepoint = None
            self._kept += step.written
        if step.writes:
            self._closed.append(step)

    def abandon_step(self) -> None:
        """Roll a step back."""
        self._open = None
        if self._savepoint is not None:
            self._savepoint.rollback()
            self._savepoint = None

    def settle(self) -> None:
        """Write what was gathered; the transaction has begun.

        Raises:
            WscError: A row that an open step was to change is not there.
            StatementError: The database refuses a row of the open step.
        """
        if self._closed and self._savepoint is None:
            self._write_closed()
        if self._open is None:
            return
        if self._savepoint is None:
            self._savepoint = self.connection.begin_nested()
        self.is_touched = True
        writes, self._open.writes = self._open.writes, []
        carry_out(self.connection, writes)
        self._open.written += writes

    def take_effect(self) -> None:
        """Apply the committed writes to the values held in memory."""
        for write in self._kept:
            if write.effect is not None:
                write.effect()
        for effect in self._effects:
            effect()

    def _write_closed(self) -> None:
        steps, self._closed = self._closed, []
        writes = [write for step in steps for write in step.writes]
        connection = self.connection
        if len(steps) == 1 and steps[0].on_failure is None:
            self.is_touched = True
            carry_out(connection, writes)
            self._kept += writes
            return
        was_touched = self.is_touched
        try:
            with self._undoing():
                carry_out_together(connection, writes)
        except (StatementError, WscError) as error:
            if was_touched and is_of_database(error):
                raise  # SQLite may have taken back all of the transaction
            self._write_one_by_one(steps)
        else:
            self._kept += writes
        self.is_touched = True

    @contextmanager
    def _undoing(self) -> Iterator[None]:
        """Undo what the block wrote if it raises, at the least cost if it does not."""
        if self.is_touched:
            with self.connection.begin_nested():
                yield
            return
        try:
            yield
        except (StatementError, WscError):
            self.connection.close()
            self._connection = None
            raise

    def _write_one_by_one(self, steps: list[Step]) -> None:
        failed: list[tuple[OnFailure, Exception]] = []
        connection = self.connection
        for step in steps:
            try:
                with connection.begin_nested():
                    carry_out(connection, step.writes)
            except (StatementError, WscError) as error:
                if step.on_failure is None or is_of_database(error):
                    raise
                failed.append((step.on_failure, error))
            else:
                self._kept += step.writes
        for on_failure, problem in reversed(failed):  # as later ones rest on earlier ones
            on_failure(problem)
