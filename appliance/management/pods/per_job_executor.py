"""Effects that may have to wait for other machines: an executor with a queue for each job.

A job's effects run in the order in which they were submitted; no job waits for another. So a node
that does not answer delays only the jobs that use it. The result of an effect is posted to the
reconciler's mailbox, as every event is.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from appliance.core.ids import JobId

Effect = Callable[[], None]

logger = logging.getLogger(__name__)

NUM_THREADS = 32
"""Jobs whose effects run at once, and so launches that may wait for silent nodes before the next
job has to wait with them. A node is known to be silent after seconds; then nothing waits for it."""


class PerJobExecutor:
    """Runs effects, each job's in order.

    Args:
        num_threads: Effects that are done at once, at most.
    """

    def __init__(self, *, num_threads: int = NUM_THREADS) -> None:
        self._pool = ThreadPoolExecutor(max_workers=num_threads, thread_name_prefix="job-effects")
        self._waiting: dict[JobId, deque[Effect]] = {}
        self._num_running = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def submit(self, job: JobId, effect: Effect) -> None:
        """Run an effect after those that were submitted for the same job before; do not wait.

        After `close` nothing is done any more.
        """
        with self._changed:
            if self._is_closed:
                return
            if (waiting := self._waiting.get(job)) is not None:
                waiting.append(effect)
                return
            self._waiting[job] = deque([effect])
            self._pool.submit(self._run, job)

    def close(self, *, timeout_seconds: float) -> None:
        """Drop what has not begun, as if management were killed; wait a while for what has."""
        with self._changed:
            self._is_closed = True
            self._pool.shutdown(wait=False, cancel_futures=True)
            for waiting in self._waiting.values():
                waiting.clear()
            if not self._changed.wait_for(lambda: self._num_running == 0, timeout_seconds):
                logger.warning(
                    "Launches are left as they are", extra={"num_launches": self._num_running}
                )

    def _run(self, job: JobId) -> None:
        """Run what waits for a job; it has a queue for as long as this runs."""
        with self._changed:
            self._num_running += 1
        while (effect := self._next(job)) is not None:
            try:
                effect()
            except Exception:  # outermost loop of the effects of one job
                logger.exception("An effect of a job failed", extra={"job": job})

    def _next(self, job: JobId) -> Effect | None:
        with self._changed:
            if waiting := self._waiting[job]:
                return waiting.popleft()
            del self._waiting[job]
            self._num_running -= 1
            self._changed.notify_all()
            return None
