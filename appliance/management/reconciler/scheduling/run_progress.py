"""How far running jobs are, by their coordinators' reports; for all threads.

It is kept in memory: coordinators report every two seconds, so a management that has just started
knows it again at once.
"""

from collections.abc import Mapping
from types import MappingProxyType

from appliance.core.cluster.run import RunProgress
from appliance.core.ids import JobId

_SHIFT_SECONDS = 5.0
_SHIFT_SHARE = 0.1
"""An expected end that moves by more than this, and this part of the time left, is news."""


class ProgressBook:
    """The present session of each running execute job."""

    def __init__(self) -> None:
        self._last: dict[JobId, RunProgress] = {}
        self._told: dict[JobId, float | None] = {}

    def note(self, job: JobId, progress: RunProgress) -> bool:
        """Note how far a job is.

        Returns:
            Whether its end is now expected at a time that differs from what was last said.
        """
        self._last[job] = progress
        end, told = progress.end_seconds, self._told.get(job)
        if end is None:
            return False
        left = end - progress.at_seconds
        if told is not None and abs(end - told) <= max(_SHIFT_SECONDS, _SHIFT_SHARE * left):
            return False
        self._told[job] = end
        return True

    def forget(self, job: JobId) -> bool:
        """Forget a job whose session is over, or that has ended; return whether it was known."""
        self._told.pop(job, None)
        return self._last.pop(job, None) is not None

    def find(self, job: JobId) -> RunProgress | None:
        """Return how far a job is; None if no session of it runs."""
        return self._last.get(job)

    @property
    def all(self) -> Mapping[JobId, RunProgress]:
        """How far each job is."""
        return MappingProxyType(self._last)
