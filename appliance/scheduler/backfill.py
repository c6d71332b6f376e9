"""Backfill: a blocked job is promised a start, and others may pass it where that promise stands.

A promise walks through the ends of what runs until the whole gang fits. Whoever ends before that
time, or takes nothing that the promise needs, may start now. As limits are upper bounds, a promise
can only move forward in time. One promise is made per lane (execute, compile), as EASY makes one:
promising everybody costs more than it brings.

Source: Lifka, The ANL/IBM SP scheduling system, 1995. We differ: candidates are tried the shortest
expected first (Tsafrir et al., 2007, section 5), and demands have many dimensions.
"""

import numpy as np
from numpy.typing import NDArray

from appliance.scheduler.admission import Ending, Promise, Round, fitting_slots
from appliance.scheduler.placement import Placement, place
from appliance.scheduler.policy import BUCKET_WIDTH, BackfillOrder
from appliance.scheduler.queue import VALUE_SHIFT


def promise_start(round_: Round, slot: int) -> Promise | None:
    """Return the earliest start that a blocked job can count on.

    Args:
        round_: The cycle.
        slot: The job.

    Returns:
        The promise, or None if the job does not fit even when all that runs has ended, as long as
        systems or nodes are out of service.
    """
    job = round_.queue.jobs[slot]
    demand = round_.queue.demands[slot]
    bound = float(round_.queue.columns.bound[slot])
    walk = round_.free.copy()
    promised_systems = promised_groups = 0
    for promise in round_.promises:
        walk.take(promise.placement)
        promised_systems |= promise.placement.systems
        promised_groups |= promise.placement.groups
    free_now = walk.systems
    steps = _steps(round_)
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


def _steps(round_: Round) -> list[Ending]:
    now = round_.snapshot.now_seconds
    ends = round_.frame.window_ends(now)
    if not ends:
        return round_.endings
    nothing = [Ending(at_seconds=end, job="", held=Placement(), grant=None) for end in ends]
    return sorted([*round_.endings, *nothing])


def fill(round_: Round) -> None:
    """Admit jobs that delay no promise, in the order that the policy names."""
    policy = round_.snapshot.policy
    if policy.backfill is BackfillOrder.NONE:
        return
    slots = np.flatnonzero(_candidates(round_))
    if not len(slots):
        return
    rank = _ranks(round_, slots)
    if len(slots) > policy.backfill_depth:
        first = np.argpartition(rank, policy.backfill_depth)[: policy.backfill_depth]
        slots, rank = slots[first], rank[first]
    order = np.lexsort((round_.key[slots], rank))
    for slot in slots[order].tolist():
        round_.try_admit(slot)


def _candidates(round_: Round) -> NDArray[np.bool_]:
    queue = round_.queue
    able = round_.is_open & round_.may_start & fitting_slots(queue, round_.free.columns())
    end = round_.snapshot.now_seconds + queue.columns.known_bound[: len(queue)]
    for promise in round_.promises:
        beside = fitting_slots(queue, promise.spare.columns())
        able &= beside | (end <= promise.start_seconds)
    return able


def _ranks(round_: Round, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what candidates are tried by; equal ones are tried as they stand in the queue."""
    key = round_.key[slots]
    if round_.snapshot.policy.backfill is BackfillOrder.QUEUE:
        return np.asarray(key.argsort().argsort(), dtype=np.float64)
    bucket = (key >> VALUE_SHIFT) // BUCKET_WIDTH
    expected = np.minimum(round_.queue.columns.expected[slots], 1e9)
    return np.asarray(bucket * 1e10 + expected, dtype=np.float64)
