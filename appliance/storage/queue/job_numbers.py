"""Numbers of jobs, in the order of their submission, given out before their rows are written."""

import threading
from collections import deque

from sqlalchemy import text

from appliance.storage.engine.database import Database

_BLOCK = 64

_LAST = "SELECT coalesce(max(sequence), 0) FROM jobs"
_NEXT = text(
    "SELECT nextval(pg_get_serial_sequence('jobs', 'sequence')) FROM generate_series(1, :count)"
)


class JobNumbers:
    """Gives out numbers that no other job has.

    SQLite has one writer at a time, so the numbers of a batch follow the last that is kept. In
    PostgreSQL they come from the table's own sequence, a block at a time; a block that is not used
    up leaves a gap.

    Args:
        database: Where the jobs are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._batch = 0
        self._last = 0
        self._block: deque[int] = deque()

    def next(self) -> int:
        """Return the next number; on SQLite in a batch, whose transaction keeps the job too."""
        if self._database.engine.dialect.name == "postgresql":
            return self._of_sequence()
        number = self._database.batch_number
        if number != self._batch:
            self._last = self._database.scalar(_LAST)
            self._batch = number
        self._last += 1
        return self._last

    def _of_sequence(self) -> int:
        with self._lock:
            if not self._block:
                with self._database.transaction() as session:
                    self._block.extend(session.scalars(_NEXT, {"count": _BLOCK}))
            return self._block.popleft()
