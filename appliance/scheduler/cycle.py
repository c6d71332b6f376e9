"""One scheduling cycle: from a snapshot of the cluster and the queue to decisions.

1. *Order.* Each job gets a key: priority, quota, fair share, age, submission (`order`).
2. *Sift.* Cache lookups start, infeasible requests are rejected, workflows get their reservations
   (`admission`).
3. *Admit* in order, until in each queue type (execute, compile) a job does not fit.
4. *Promise* that job a start, and stop lower priorities for it where that is allowed (`backfill`,
   `preemption`).
5. *Backfill*: jobs behind it start where they delay no promise (`backfill`).
6. *Explain* what still waits, when somebody asks (`waiting`).

The cycle reads a snapshot, changes nothing but its own working state, and knows the time only from
the snapshot: the same values give the same decisions.
"""

from dataclasses import dataclass

from appliance.core.errors import UnschedulableError
from appliance.scheduler.admission import Admit, CycleState, Preempt, Reject, check_feasible, sift
from appliance.scheduler.backfill import fill, promise_start
from appliance.scheduler.preemption import preempt_for
from appliance.scheduler.queue import QUEUE_TYPES, JobQueue, PendingJob, in_order
from appliance.scheduler.snapshot import ClusterSnapshot
from appliance.scheduler.waiting.wait_reasons import Wait, Waits

Decision = Admit | Reject | Preempt


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleOutcome:
    """What a cycle decided.

    Attributes:
        decisions: What is to be done, in this order.
        waits: For each job that goes on waiting, why.
    """

    decisions: tuple[Decision, ...]
    waits: Waits


def run_cycle(snapshot: ClusterSnapshot, queue: JobQueue) -> CycleOutcome:
    """Decide about every pending job.

    Args:
        snapshot: The cluster as it is now.
        queue: The jobs that wait. It is not changed: the caller removes who was admitted.

    Returns:
        The decisions, and the reasons of those who wait.
    """
    cycle = CycleState(snapshot, queue)  # step 1, Order, is part of it
    sift(cycle)
    _admit_in_order(cycle)
    fill(cycle)
    if cycle.decisions:  # who was admitted took from quotas
        cycle.may_start = cycle.rooms.open_slots(queue)
    return CycleOutcome(decisions=tuple(cycle.decisions), waits=Waits.after(cycle))


def would_start(
    snapshot: ClusterSnapshot, queue: JobQueue, job: PendingJob
) -> Admit | Reject | Wait:
    """Decide whether a job would start if it were submitted now.

    Args:
        queue: The jobs that wait. It has the hypothetical job meanwhile, so nobody else may use it
            then; afterwards it is as it was.
        job: The hypothetical job.
    """
    with queue.joined_by(job):
        outcome = run_cycle(snapshot, queue)
    for decision in outcome.decisions:
        if decision.job == job.id and not isinstance(decision, Preempt):
            return decision
    return outcome.waits[job.id]


def _admit_in_order(cycle: CycleState) -> None:
    """Steps 3 and 4: admit until a job of each queue type is blocked, and promise it a start."""
    queue = cycle.queue
    queue_type = queue.columns.queue_type[: len(queue)]
    in_question = cycle.is_open & cycle.may_start & cycle.can_ever
    for slot in in_order(cycle.key, in_question):
        in_question[slot] = False
        if not cycle.rooms.admits(queue.jobs[slot]) or cycle.try_admit(slot):
            continue
        promise = promise_start(cycle, slot)
        if promise is None:
            _set_aside(cycle, slot)
            continue
        if cycle.snapshot.policy.allows_preemption:
            promise = preempt_for(cycle, slot, promise)
        cycle.promises.append(promise)
        in_question &= queue_type != queue_type[slot]
        if len(cycle.promises) == len(QUEUE_TYPES):
            return


def _set_aside(cycle: CycleState, slot: int) -> None:
    """Reject a job that does not fit on the empty cluster; else it waits for repairs."""
    job = cycle.queue.jobs[slot]
    try:
        check_feasible(job, cycle.snapshot)
    except UnschedulableError as error:
        cycle.reject(slot, error)
    else:
        cycle.stuck[job.id] = None
