"""Expected starts of somebody who knows the future of all jobs but not who else will come.

No estimate of run times can be better, so what these are wrong by is the part of the errors that
only knowing the submissions to come would remove.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from appliance.core.ids import JobId
from appliance.scheduler.run_time import Basis
from appliance.scheduler.snapshot import ClusterSnapshot, Grant
from appliance.scheduler.waiting.expected_start import ExpectedStarts, WaitingJobs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Foreseen(ClusterSnapshot):
    """A snapshot whose reader knows the ends of the running jobs."""

    known_ends: Mapping[JobId, float] = field(default_factory=dict)

    def expected_end(self, grant: Grant) -> tuple[float, Basis]:
        """Return when a grant ends."""
        return max(self.known_ends[grant.job], self.now_seconds + 1.0), Basis.STEPS


class _ForeseenJobs(WaitingJobs):
    """Waiting jobs of which it is known how long they will run."""

    def __init__(
        self, waiting: WaitingJobs, ends: Mapping[JobId, float], lengths: Mapping[JobId, float]
    ) -> None:
        self.__dict__.update(waiting.__dict__)
        now = waiting.snapshot
        known = {each.name: getattr(now, each.name) for each in fields(now)}
        self.snapshot = _Foreseen(**known, known_ends=ends)
        self._lengths = lengths

    def planned_seconds(self, slot: int) -> float:
        """Return for how long a waiting job will be in the way of others."""
        return self._lengths[self.jobs[slot].id]


def foreseen(
    waiting: WaitingJobs, ends: Mapping[JobId, float], lengths: Mapping[JobId, float]
) -> ExpectedStarts:
    """Return the starts that somebody expects who knows the jobs' future.

    Args:
        waiting: The jobs as they wait now.
        ends: When each running job ends.
        lengths: How long each waiting job will run.
    """
    return ExpectedStarts(_ForeseenJobs(waiting, ends, lengths))
