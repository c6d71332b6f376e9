"""One scheduling cycle: first come, first served, gangs whole or not at all.

A job that does not fit holds back every execute job behind it, so none starves; compile jobs need
no system and are never held back.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from appliance.core.errors import UnschedulableError
from appliance.core.ids import JobId
from appliance.core.jobs import JobType
from appliance.scheduler.admission import check_feasible, find_grant
from appliance.scheduler.queue import PendingJob, in_order
from appliance.scheduler.snapshot import ClusterSnapshot, Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """The job starts with this grant."""

    job: JobId
    grant: Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The job stays in the queue.

    Attributes:
        job: The job.
        reason: Why, in the words users know.
        position: Execute jobs served before it; 0 for the first.
        blocking: Jobs that hold what it needs.
    """

    job: JobId
    reason: str
    position: int
    blocking: tuple[JobId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """The job can never start."""

    job: JobId
    error: UnschedulableError


Decision = Admit | Wait | Reject


def run_cycle(snapshot: ClusterSnapshot, pending: Iterable[PendingJob]) -> tuple[Decision, ...]:
    """Decide about every pending job.

    Args:
        snapshot: The cluster as it is now.
        pending: The jobs that wait, in any order.

    Returns:
        One decision for each job, in the order of service.
    """
    decisions: list[Decision] = []
    waiting = 0
    for job in in_order(pending):
        try:
            check_feasible(job.num_systems, snapshot)
        except UnschedulableError as error:
            decisions.append(Reject(job=job.id, error=error))
            continue
        is_held_back = waiting > 0 and job.type is not JobType.COMPILE
        grant = None if is_held_back else find_grant(job, snapshot)
        if grant is None:
            decisions.append(_wait(job, waiting, snapshot))
            waiting += 1
        else:
            decisions.append(Admit(job=job.id, grant=grant))
            snapshot = snapshot.with_grant(grant)
    return tuple(decisions)


def _wait(job: PendingJob, position: int, snapshot: ClusterSnapshot) -> Wait:
    if position == 0:
        place = "current job is top of queue but likely blocked by running jobs"
    else:
        place = f"{position} execute job(s) queued before current job"
    executing = [grant for grant in snapshot.grants if grant.type is not JobType.COMPILE]
    facts = [place]
    if executing:
        in_use = sum(len(grant.systems) for grant in executing)
        facts.append(f"{len(executing)} execute job(s) running using {in_use} system(s)")
    if num_compiles := len(snapshot.grants) - len(executing):
        facts.append(f"{num_compiles} compile job(s) running")
    facts.append(f"{job.num_systems} of {len(snapshot.systems)} system(s) requested")
    reason = (
        f"job is queueing. Job queue status: {', '.join(facts)}. "
        "For more information, please run 'csctl get jobs'."
    )
    blocking = tuple(grant.job for grant in executing)
    return Wait(job=job.id, reason=reason, position=position, blocking=blocking)
