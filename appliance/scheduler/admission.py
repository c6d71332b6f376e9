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
    num_existing = len(snapshot.systems)
    if num_systems > num_existing:
        raise UnschedulableError(
            f"cluster lacks requested capacity: requested {num_systems} system[type:CS2] but "
            f"{num_existing} exists.",
            hint=f"Ask for a num_csx of at most {num_existing}.",
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
