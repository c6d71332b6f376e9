"""Lists of jobs, one line each, with the readings that they report while they run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from appliance.core.cluster.run import Point
from appliance.core.ids import JobId
from appliance.core.queries.job_filter import JobFilter, JobLine
from appliance.management.store.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLists:
    """Answers questions about many jobs at once, each from one read of the database.

    Attributes:
        state: The appliance's database.
    """

    state: State

    def page(self, wanted: JobFilter) -> Sequence[JobLine]:
        """Return the jobs of one page."""
        return self.state.job_pages.page(wanted)

    def count(self, wanted: JobFilter) -> int:
        """Return how many jobs there are on all pages together."""
        return self.state.job_pages.count(wanted)

    def lines(self, jobs: Sequence[JobId]) -> Mapping[JobId, JobLine]:
        """Return those of some jobs that still exist."""
        lines = self.state.job_pages.lines(jobs) if jobs else ()
        return {line.id: line for line in lines}

    def series(
        self, job: JobId, *, names: Iterable[str] = (), after: int = 0
    ) -> Mapping[str, Sequence[tuple[int, Point]]]:
        """Return what a job has reported of its training, by the name of the series.

        Args:
            names: Only these series; none means all.
            after: Only points after this number.
        """
        return self.state.series.of_job(job, names=names, after=after)

    def latest(self, jobs: Sequence[JobId]) -> Mapping[JobId, Mapping[str, Point]]:
        """Return the newest point of every series of some jobs."""
        return self.state.series.latest(jobs) if jobs else {}
