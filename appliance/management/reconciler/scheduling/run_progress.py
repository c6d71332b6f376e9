"""How far running jobs are, by their coordinators' reports; for all threads.

It is kept in memory: coordinators report every two seconds, so a management that has just started
knows the present session again at once; those that are complete it reads from the database.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from appliance.core.cluster.run import MOST_ENDS, CompletedSessions, RunProgress, RunSession
from appliance.core.ids import JobId

_SHIFT_SECONDS = 5.0
_SHIFT_SHARE = 0.1
"""An expected end that moves by more than this, and this part of the time left, is news."""


class ProgressBook:
    """The present session of each running execute job, and how long those before it took."""

    def __init__(self) -> None:
        self._last: dict[JobId, RunProgress] = {}
        self._told: dict[JobId, float | None] = {}
        self._begun: dict[JobId, float] = {}
        self._completed: dict[JobId, CompletedSessions] = {}

    def note(self, job: JobId, progress: RunProgress) -> bool:
        """Note how far a job is.

        Returns:
            Whether its end is now expected at a time that differs from what was last said.
        """
        progress = self._since_last_step(job, progress)
        self._last[job] = progress
        self._begun.setdefault(job, progress.at_seconds)
        end, told = progress.end_seconds, self._told.get(job)
        if end is None:
            return False
        left = end - progress.at_seconds
        if told is not None and abs(end - told) <= max(_SHIFT_SECONDS, _SHIFT_SHARE * left):
            return False
        self._told[job] = end
        return True

    def complete(self, job: JobId, progress: RunProgress) -> None:
        """Note that a job's session is over.

        Args:
            progress: How far the session came; its time is that of its end.
        """
        last_step = self._since_last_step(job, progress).at_seconds
        self._clear(job)
        begun = self._begun.pop(job, progress.at_seconds)
        stepped = progress.completed_steps * progress.step_seconds
        seconds = max(progress.at_seconds - begun, stepped)
        self._add(job, progress.session, seconds, last_step)

    def recall(self, job: JobId, sessions: Iterable[RunSession]) -> None:
        """Note the sessions of a job that an earlier management was told of."""
        for session in sessions:
            if session.ended_at is not None:
                seconds = (session.ended_at - session.started_at).total_seconds()
                self._add(job, session.number, seconds, session.ended_at.timestamp())

    def forget(self, job: JobId) -> None:
        """Forget a job that has ended, or that is queued again."""
        self._clear(job)
        self._begun.pop(job, None)
        self._completed.pop(job, None)

    def completed(self, job: JobId) -> CompletedSessions | None:
        """Return the sessions that a job has completed; None before the first is."""
        return self._completed.get(job)

    def find(self, job: JobId) -> RunProgress | None:
        """Return how far a job is; None if no session of it runs."""
        return self._last.get(job)

    def sessions(self, job: JobId) -> tuple[RunProgress | None, CompletedSessions | None]:
        """Return how far a job is, and the sessions that it has completed."""
        return self._last.get(job), self._completed.get(job)

    @property
    def all(self) -> Mapping[JobId, RunProgress]:
        """How far each job is."""
        return MappingProxyType(self._last)

    def _clear(self, job: JobId) -> None:
        self._last.pop(job, None)
        self._told.pop(job, None)

    def _since_last_step(self, job: JobId, progress: RunProgress) -> RunProgress:
        """Return a report with the time at which the last step was first known to be complete."""
        before = self._last.get(job)
        if (
            before is None
            or before.session != progress.session
            or before.completed_steps < (before.num_steps)
        ):
            return progress
        return replace(progress, at_seconds=before.at_seconds)

    def _add(self, job: JobId, count: int, seconds: float, last_step_seconds: float) -> None:
        before = self._completed.get(job)
        ends = before.ends_seconds if before else ()
        self._completed[job] = CompletedSessions(
            count=count,
            longest_seconds=max(seconds, before.longest_seconds if before else 0.0),
            last_end_seconds=last_step_seconds,
            ends_seconds=(*ends, last_step_seconds)[:MOST_ENDS],
        )
