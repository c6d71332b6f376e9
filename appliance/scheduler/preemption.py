"""Which running jobs to stop so that a blocked one of higher priority can start.

Candidates are released on a copy of the capacity (`Capacity.give`) to see whether the job then
fits. Victims are whole gangs, of a strictly lower bucket (a higher value would let two users push
each other out for ever), that can go on from a checkpoint; aging gives nobody the right to preempt.
With quotas, a session that is within its own may also take back from one that borrows, at equal
priority or lower. So the priority of what is admitted never falls.

Source: Kueue, pkg/scheduler/preemption (minimal set: remove until it fits, then put back whoever is
not needed).
"""

from dataclasses import replace

from appliance.scheduler.admission import CycleState, Preempt, Promise
from appliance.scheduler.backfill import promise_start
from appliance.scheduler.placement import Capacity, place
from appliance.scheduler.policy import bucket_of
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.snapshot import Grant


def preempt_for(cycle: CycleState, slot: int, promise: Promise) -> Promise:
    """Preempt jobs of lower priority for a blocked job, if that is allowed and suffices.

    Args:
        cycle: The cycle; it gets a decision for each victim.
        slot: The blocked job.
        promise: When it starts if nobody is stopped.

    Returns:
        Its promise after the victims were told to stop, or the one given.
    """
    victims = find_victims(cycle, slot)
    if not victims:
        return promise
    names = {victim.job for victim in victims}
    for victim in victims:
        reason = (
            f"preempted by {promise.job.id}: priority {promise.job.priority} needs "
            f"{promise.job.num_systems} system(s), {victim.job} holds {victim.num_systems} "
            f"with priority {victim.priority}"
        )
        cycle.decisions.append(Preempt(job=victim.job, beneficiary=promise.job.id, reason=reason))
    now = cycle.snapshot.now_seconds
    cycle.endings = sorted(
        replace(ending, at_seconds=now) if ending.job in names else ending
        for ending in cycle.endings
    )
    return promise_start(cycle, slot) or promise


def find_victims(cycle: CycleState, slot: int) -> tuple[Grant, ...]:
    """Return a smallest set of jobs whose end lets a blocked job start, the least urgent first.

    Empty means that none is needed (enough are ending already), or that no set would do.
    """
    job = cycle.queue.jobs[slot]
    capacity = cycle.free.copy()
    for grant in cycle.snapshot.grants:
        if grant.is_ending:
            capacity.give(cycle.frame.held(grant))
    for promise in cycle.promises:
        capacity.take(promise.placement)
    if _fits(cycle, slot, capacity):
        return ()
    chosen: list[Grant] = []
    for grant in _candidates(cycle, job):
        capacity.give(cycle.frame.held(grant))
        chosen.append(grant)
        if _fits(cycle, slot, capacity):
            return _minimal(cycle, slot, capacity, chosen)
    return ()


def _minimal(
    cycle: CycleState, slot: int, capacity: Capacity, chosen: list[Grant]
) -> tuple[Grant, ...]:
    """Remove victims that are not needed, the most urgent first."""
    needed = []
    for grant in reversed(chosen):
        without = capacity.copy()
        without.take(cycle.frame.held(grant))
        if _fits(cycle, slot, without):
            capacity = without
        else:
            needed.append(grant)
    return tuple(reversed(needed))


def _candidates(cycle: CycleState, job: PendingJob) -> list[Grant]:
    may_reclaim = (
        cycle.snapshot.policy.reclaims_borrowed
        and job.session in cycle.rooms.quotas
        and cycle.rooms.own_left(job.session) >= job.num_systems + job.reserve_systems
    )
    grants = [
        grant
        for grant in cycle.snapshot.grants
        if grant.is_preemptible
        and not grant.is_ending
        and (
            bucket_of(grant.priority) > bucket_of(job.priority)
            or (may_reclaim and _is_borrowing(cycle, job, grant))
        )
    ]
    now = cycle.snapshot.now_seconds
    return sorted(
        grants,
        key=lambda g: (-g.priority, -(now if g.started_seconds is None else g.started_seconds)),
    )


def _is_borrowing(cycle: CycleState, job: PendingJob, grant: Grant) -> bool:
    return (
        grant.account.session != job.session
        and grant.priority >= job.priority
        and cycle.rooms.own_left(grant.account.session) < 0
    )


def _fits(cycle: CycleState, slot: int, capacity: Capacity) -> bool:
    now = cycle.snapshot.now_seconds
    end = cycle.end_of(slot)
    demand = cycle.queue.demands[slot]
    free = capacity.copy()
    for promise in cycle.promises:
        free.systems &= ~promise.placement.systems
        free.groups &= ~promise.placement.groups
    return place(demand, free, start_seconds=now, end_seconds=end) is not None
