"""Errands of jobs that may have to wait for other machines: a lane for each job.

In a lane errands follow each other in the order in which they were sent; no lane waits for another.
So a node that does not answer delays the jobs that have to do with it, and nobody else. What comes
of an errand its doer tells the reconciler, as everybody does, through the mailbox.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from appliance.core.ids import JobId

Errand = Callable[[], None]

logger = logging.getLogger(__name__)

NUM_THREADS = 32
"""Lanes that move at once, and so launches that may wait for silent nodes before the next lane has
to wait with them. A node is known to be silent after some seconds; then nothing waits for it."""


class Lanes:
    """Does errands, each job's in order.

    Args:
        num_threads: Errands that are done at once, at most.
    """

    def __init__(self, *, num_threads: int = NUM_THREADS) -> None:
        self._pool = ThreadPoolExecutor(max_workers=num_threads, thread_name_prefix="lane")
        self._waiting: dict[JobId, deque[Errand]] = {}
        self._num_moving = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def send(self, job: JobId, errand: Errand) -> None:
        """Have an errand done after those that were sent for the same job before; do not wait.

        After `close` nothing is done any more.
        """
        with self._changed:
            if self._is_closed:
                return
            if (waiting := self._waiting.get(job)) is not None:
                waiting.append(errand)
                return
            self._waiting[job] = deque([errand])
            self._pool.submit(self._move, job)

    def close(self, *, timeout_seconds: float) -> None:
        """Drop what has not begun, as if management were killed; wait a while for what has."""
        with self._changed:
            self._is_closed = True
            self._pool.shutdown(wait=False, cancel_futures=True)
            for waiting in self._waiting.values():
                waiting.clear()
            if not self._changed.wait_for(lambda: self._num_moving == 0, timeout_seconds):
                logger.warning(
                    "Launches are left as they are", extra={"num_launches": self._num_moving}
                )

    def _move(self, job: JobId) -> None:
        """Do what is waiting in a job's lane; there is a lane for as long as this runs."""
        with self._changed:
            self._num_moving += 1
        while (errand := self._next(job)) is not None:
            try:
                errand()
            except Exception:  # outermost loop of the errands of one job
                logger.exception("Errand of a job could not be done", extra={"job": job})

    def _next(self, job: JobId) -> Errand | None:
        with self._changed:
            if waiting := self._waiting[job]:
                return waiting.popleft()
            del self._waiting[job]
            self._num_moving -= 1
            self._changed.notify_all()
            return None
