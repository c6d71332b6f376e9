"""One scheduling cycle: from a snapshot of the cluster and the queue to decisions.

1. *Order.* Each job gets a key: priority, quota, fair share, age, submission (`order`).
2. *Sift.* Cache hits start, hopeless requests are refused, workflows get what they keep
   (`admission`).
3. *Admit* in order, until in each lane (execute, compile) a job does not fit.
4. *Promise* that job a start, and stop lower priorities for it where that is allowed (`backfill`,
   `preemption`).
5. *Backfill*: jobs behind it start where they delay no promise (`backfill`).
6. *Explain* what still waits, when somebody asks (`explain`).

The cycle reads a snapshot, changes nothing but its own working state, and knows the time only from
the snapshot: the same values give the same decisions.
"""

from dataclasses import dataclass

from appliance.core.errors import UnschedulableError
from appliance.scheduler.admission import Admit, Preempt, Reject, Round, check_feasible, sift
from appliance.scheduler.backfill import fill, promise_start
from appliance.scheduler.explain import Wait, Waits
from appliance.scheduler.preemption import preempt_for
from appliance.scheduler.queue import LANES, JobQueue, PendingJob, in_order
from appliance.scheduler.snapshot import ClusterSnapshot

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
    round_ = Round(snapshot, queue)  # step 1, Order, is part of it
    sift(round_)
    _admit_in_order(round_)
    fill(round_)
    round_.may_start = round_.rooms.open_slots(queue)
    return CycleOutcome(decisions=tuple(round_.decisions), waits=Waits(round_))


def would_start(
    snapshot: ClusterSnapshot, queue: JobQueue, job: PendingJob
) -> Admit | Reject | Wait:
    """Say what would become of a job if it were submitted now.

    Args:
        snapshot: The cluster.
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


def _admit_in_order(round_: Round) -> None:
    """Steps 3 and 4: admit until one job of each lane is blocked, and promise that one a start."""
    queue = round_.queue
    lane = queue.columns.lane[: len(queue)]
    in_question = round_.is_open & round_.may_start & round_.can_ever
    for slot in in_order(round_.key, in_question):
        in_question[slot] = False
        if not round_.rooms.admits(queue.jobs[slot]) or round_.try_admit(slot):
            continue
        promise = promise_start(round_, slot)
        if promise is None:
            _set_aside(round_, slot)
            continue
        if round_.snapshot.policy.allows_preemption:
            promise = preempt_for(round_, slot, promise)
        round_.promises.append(promise)
        in_question &= lane != lane[slot]
        if len(round_.promises) == len(LANES):
            return


def _set_aside(round_: Round, slot: int) -> None:
    """Refuse a job that cannot fit even on the empty cluster; else it waits for repairs."""
    job = round_.queue.jobs[slot]
    try:
        check_feasible(job, round_.snapshot)
    except UnschedulableError as error:
        round_.reject(slot, error)
    else:
        round_.stuck[job.id] = None
