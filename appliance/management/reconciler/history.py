"""Deletes old jobs and events of systems when their retention time is over."""

import datetime as dt
import logging
from collections.abc import Sequence

from appliance.management.store.state import State

logger = logging.getLogger(__name__)

_PRUNE_SECONDS = 60.0
_MAX_PRUNED = 500
"""Jobs, and events of systems, that are forgotten at a time, so that nobody waits long for it."""


class History:
    """Deletes what is older than its retention time.

    Args:
        state: What is kept.
        seconds: Jobs that ended longer ago, and events of systems from before, are forgotten; None
            keeps all.
    """

    def __init__(self, state: State, seconds: float | None) -> None:
        self._state = state
        self._seconds = seconds
        self._next_prune = 0.0

    def prune(self, now_seconds: float) -> Sequence[str]:
        """Forget some of what is old, if it is time to look; called within a batch.

        Args:
            now_seconds: Of the monotonic clock.

        Returns:
            Directories that nobody needs once that is kept.
        """
        if self._seconds is None or now_seconds < self._next_prune:
            return ()
        self._next_prune = now_seconds + _PRUNE_SECONDS
        before = self._state.clock.now() - dt.timedelta(seconds=self._seconds)
        jobs = self._state.jobs.prune(before, limit=_MAX_PRUNED)
        num_events = self._state.system_events.prune(before, limit=_MAX_PRUNED)
        if jobs or num_events:
            logger.info(
                "Old jobs and events are forgotten",
                extra={"jobs": len(jobs), "system_events": num_events},
            )
        return [work_dir for _, work_dir in jobs if work_dir]
