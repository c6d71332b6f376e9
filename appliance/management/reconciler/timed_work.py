"""Actions due at a time: jobs' reminders, expired leases, and deletion of old jobs."""

import datetime as dt
import logging
import shutil
from collections.abc import Sequence
from functools import partial
from typing import assert_never

from appliance.core.ids import JobId, WorkflowId
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.transitions import apply
from appliance.management.reconciler.world import Alarm, World, guarded
from appliance.management.store.state import State
from appliance.storage.queue.leases import Lease

logger = logging.getLogger(__name__)

_LEASE_CHECK_SECONDS = 1.0
_PRUNE_SECONDS = 60.0
_MAX_PRUNED = 500
"""Jobs, and events of systems, that are forgotten at a time, so that nobody waits long for it."""


class TimedWork:
    """Performs due actions, once in each turn of the reconciler.

    Args:
        world: What it works on.
        history_seconds: Jobs that ended longer ago, and events of systems from before, are
            forgotten; None keeps all.
    """

    def __init__(self, world: World, history_seconds: float | None) -> None:
        self._world = world
        self._history = _History(world.state, history_seconds)
        self._next_lease_check = 0.0

    def next_seconds(self) -> float:
        """Return when something is due next, by the monotonic clock; it may be over."""
        alarm = self._world.reminders.next_seconds()
        return self._next_lease_check if alarm is None else min(alarm, self._next_lease_check)

    def do_due(self) -> None:
        """Do all that is due; called within a turn."""
        now = self._world.clock.monotonic_seconds()
        for job, alarm in self._world.reminders.take_due(now):
            guarded(self._world, job, alarm, partial(self._ring, job, alarm))
        if now >= self._next_lease_check:
            self._next_lease_check = now + _LEASE_CHECK_SECONDS
            self._expire_leases()
        for directory in self._history.prune(now):
            self._world.turn.after_commit(partial(shutil.rmtree, directory, ignore_errors=True))

    def _ring(self, job: JobId, alarm: Alarm) -> None:
        match alarm:
            case Alarm.GRACE:
                apply(self._world, job, machine.TimeElapsed())
            case Alarm.LIMIT:
                live = self._world.jobs.find(job)
                limit = None if live is None else live.record.requirements.limit_seconds
                apply(self._world, job, machine.LimitReached(seconds=limit or 0.0))
            case _:
                assert_never(alarm)

    def _expire_leases(self) -> None:
        for lease in self._world.state.leases.expired():
            logger.warning("Lease expired", extra={"lease": lease.id, "holder": lease.holder})
            guarded(self._world, JobId(lease.id), lease, partial(self._expire, lease))

    def _expire(self, lease: Lease) -> None:
        job = JobId(lease.id)
        self._world.state.leases.end(lease.id)
        self._world.turn.job_changed(job)
        if self._world.reservations.expire(WorkflowId(lease.id)):
            self._world.turn.needs_cycle = True
        apply(self._world, job, machine.LeaseExpired(seconds=lease.seconds))


class _History:
    """Deletes what is older than its retention time.

    Args:
        state: The appliance's database.
        seconds: Jobs that ended longer ago, and events of systems from before, are forgotten; None
            keeps all.
    """

    def __init__(self, state: State, seconds: float | None) -> None:
        self._state = state
        self._seconds = seconds
        self._next_prune = 0.0

    def prune(self, now_seconds: float) -> Sequence[str]:
        """Delete some expired records, if a check is due; called within a batch.

        Args:
            now_seconds: Of the monotonic clock.

        Returns:
            Directories that nobody needs after the commit.
        """
        if self._seconds is None or now_seconds < self._next_prune:
            return ()
        self._next_prune = now_seconds + _PRUNE_SECONDS
        before = self._state.clock.now() - dt.timedelta(seconds=self._seconds)
        jobs = self._state.jobs.prune(before, limit=_MAX_PRUNED)
        num_events = self._state.system_events.prune(before, limit=_MAX_PRUNED)
        if jobs or num_events:
            logger.info(
                "Old jobs and events are forgotten",
                extra={"jobs": len(jobs), "system_events": num_events},
            )
        return [work_dir for _, work_dir in jobs if work_dir]
