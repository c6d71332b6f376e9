"""Backfill: a blocked job is promised a start; jobs behind it start where they do not delay it.

A promise is found by releasing running jobs in order of their ends until the whole gang fits. A job
that ends before that time, or takes nothing that the promise needs, may start now. Because limits
are upper bounds, a promised start can only become earlier. One promise is made per queue type
(execute, compile): promising everybody costs more than it brings.

Source: Lifka, The ANL/IBM SP scheduling system, 1995. We differ: candidates are tried the shortest
expected first (Tsafrir et al., 2007, section 5), and demands have many dimensions.
"""

import numpy as np
from numpy.typing import NDArray

from appliance.scheduler.admission import CycleState, Ending, Promise, fitting_slots
from appliance.scheduler.placement import Placement, place
from appliance.scheduler.policy import BUCKET_WIDTH, BackfillOrder
from appliance.scheduler.queue import VALUE_SHIFT


def promise_start(cycle: CycleState, slot: int) -> Promise | None:
    """Return the earliest start that a blocked job can count on.

    Args:
        slot: The job.

    Returns:
        The promise, or None if the job does not fit even when all that runs has ended, as long as
        systems or nodes are out of service.
    """
    job = cycle.queue.jobs[slot]
    demand = cycle.queue.demands[slot]
    bound = float(cycle.queue.columns.bound[slot])
    walk = cycle.free.copy()
    promised_systems = promised_groups = 0
    for promise in cycle.promises:
        walk.take(promise.placement)
        promised_systems |= promise.placement.systems
        promised_groups |= promise.placement.groups
    free_now = walk.systems
    steps = _steps(cycle)
    for number, step in enumerate(steps):
        walk.give(step.held)
        walk.systems &= ~promised_systems
        walk.groups &= ~promised_groups
        placement = place(
            demand,
            walk,
            start_seconds=step.at_seconds,
            end_seconds=step.at_seconds + bound,
            preferred=walk.systems & ~free_now,
        )
        if placement is None:
            continue
        for later in steps[number + 1 :]:
            if later.at_seconds > step.at_seconds:
                break
            walk.give(later.held)
        walk.systems &= ~promised_systems
        walk.groups &= ~promised_groups
        walk.take(placement)
        return Promise(
            job=job,
            start_seconds=step.at_seconds,
            placement=placement,
            spare=walk,
            last=step.grant,
        )
    return None


def _steps(cycle: CycleState) -> list[Ending]:
    now = cycle.snapshot.now_seconds
    ends = cycle.frame.window_ends(now)
    if not ends:
        return cycle.endings
    nothing = [Ending(at_seconds=end, job="", held=Placement(), grant=None) for end in ends]
    return sorted([*cycle.endings, *nothing])


def fill(cycle: CycleState) -> None:
    """Admit jobs that delay no promise, in the policy's order."""
    policy = cycle.snapshot.policy
    if policy.backfill is BackfillOrder.NONE:
        return
    slots = np.flatnonzero(_candidates(cycle))
    if not len(slots):
        return
    rank = _ranks(cycle, slots)
    if len(slots) > policy.backfill_depth:
        first = np.argpartition(rank, policy.backfill_depth)[: policy.backfill_depth]
        slots, rank = slots[first], rank[first]
    order = np.lexsort((cycle.key[slots], rank))
    for slot in slots[order].tolist():
        cycle.try_admit(slot)


def _candidates(cycle: CycleState) -> NDArray[np.bool_]:
    queue = cycle.queue
    able = cycle.is_open & cycle.may_start & fitting_slots(queue, cycle.free.columns())
    end = cycle.snapshot.now_seconds + queue.columns.known_bound[: len(queue)]
    for promise in cycle.promises:
        beside = fitting_slots(queue, promise.spare.columns())
        able &= beside | (end <= promise.start_seconds)
    return able


def _ranks(cycle: CycleState, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sort key of candidates; ties are tried in queue order."""
    key = cycle.key[slots]
    if cycle.snapshot.policy.backfill is BackfillOrder.QUEUE:
        return np.asarray(key.argsort().argsort(), dtype=np.float64)
    bucket = (key >> VALUE_SHIFT) // BUCKET_WIDTH
    expected = np.minimum(cycle.queue.columns.expected[slots], 1e9)
    return np.asarray(bucket * 1e10 + expected, dtype=np.float64)
