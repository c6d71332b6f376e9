"""The jobs that wait, and their order."""

from collections.abc import Iterable
from dataclasses import dataclass

from appliance.core.ids import JobId
from appliance.core.jobs import JobType


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJob:
    """A job that waits for resources.

    Attributes:
        id: The job.
        type: Its type.
        sequence: Order of submission.
        priority: Lower goes first.
        num_systems: Whole systems it needs; 0 for a compile job.
    """

    id: JobId
    type: JobType
    sequence: int
    priority: int
    num_systems: int


def in_order(jobs: Iterable[PendingJob]) -> tuple[PendingJob, ...]:
    """Return jobs in the order in which they are served: by priority, then first come."""
    return tuple(sorted(jobs, key=lambda job: (job.priority, job.sequence)))
