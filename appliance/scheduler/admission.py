"""Whether a job may start: whole systems, all or nothing."""

from appliance.core.errors import UnschedulableError
from appliance.core.jobs import JobType
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.snapshot import ClusterSnapshot, Grant


def check_feasible(num_systems: int, snapshot: ClusterSnapshot) -> None:
    """Refuse a request that no state of this cluster could grant.

    Args:
        num_systems: Systems asked for.
        snapshot: The cluster.

    Raises:
        UnschedulableError: It asks for more systems than exist; the message has both numbers.
    """
    if num_systems > len(snapshot.systems):
        raise UnschedulableError(
            f"cluster lacks requested capacity: requested {num_systems} "
            f"system[type:system]{{count:{num_systems}}} but {len(snapshot.systems)} exists with "
            f"insufficient capacity {{count:{len(snapshot.systems)}}}.",
            hint=f"Ask for num_csx of at most {len(snapshot.systems)}.",
        )


def find_grant(job: PendingJob, snapshot: ClusterSnapshot) -> Grant | None:
    """Return what the job would get now, or None if it has to wait."""
    if job.type is JobType.COMPILE:
        return Grant(job=job.id, type=job.type)
    free = snapshot.free_systems()
    if len(free) < job.num_systems:
        return None
    names = tuple(system.name for system in free[: job.num_systems])
    return Grant(job=job.id, type=job.type, systems=names)
