"""How a job changes its phase: the job machine decides, the decision is written, effects follow."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import assert_never

from appliance.core.clock import Clock
from appliance.core.cluster.drivers import PREEMPTED_EVENT, PREEMPTION_EVENT
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import EventRecord, JobRecord
from appliance.core.cluster.run import not_finite_words
from appliance.core.ids import JobId, Role
from appliance.management.changes.watch import Awaited
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.launching import Launching
from appliance.management.reconciler.live_jobs import Live, LiveJobs, log_unexpected
from appliance.management.reconciler.reminders import Alarm, Reminders
from appliance.management.reconciler.resumption import state_of
from appliance.management.reconciler.scheduling.dispatcher import Dispatcher
from appliance.management.reconciler.scheduling.reservations import Reservations
from appliance.management.reconciler.scheduling.scheduler_snapshots import holding_of
from appliance.management.reconciler.turn import Turn
from appliance.management.store.state import State
from appliance.observability import metrics

logger = logging.getLogger(__name__)

_UNSEEN = (Phase.INITIALIZING, Phase.RUNNING)
"""Phases that change nothing of what the scheduler sees."""

_PHASE_CHANGES = {phase: metrics.PHASE_CHANGES.labels(phase.value) for phase in Phase}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Callbacks to other services about changes of jobs.

    Attributes:
        pod_lost: Asked, of a driver whose pod has ended badly, why it is started again; answers
            with nothing if it is not.
        last_words: Asked, of such a driver, the last error that its script printed.
        script_ended: Told, with how, of each driver whose pod has ended badly, and with it its
            script: once that is committed, and before it is started again.
        held_from_start: Asked, of each new job that nobody holds, what holds it; answers with
            nothing if it may start.
        job_ended: Told of each job that has ended, once that is committed; must not wait.
    """

    pod_lost: Callable[[JobRecord, machine.PodExited], str] = field(default=lambda *_: "")
    last_words: Callable[[JobRecord], str] = field(default=lambda _: "")
    script_ended: Callable[[JobRecord, str], None] = field(default=lambda *_: None)
    held_from_start: Callable[[JobRecord], str] = field(default=lambda _: "")
    job_ended: Callable[[JobId], None] = field(default=lambda _: None)


class TransitionEffects:
    """Moves jobs from phase to phase.

    Args:
        jobs: The jobs that have not ended.
        turn: Collects what follows.
        state: The appliance's database.
        dispatcher: The queue.
        reservations: What workflows keep between their jobs.
        reminders: When jobs are looked at again.
        launching: Launches and stops pods.
        clock: Source of time.
        hooks: What others decide or want to know.
    """

    def __init__(
        self,
        *,
        jobs: LiveJobs,
        turn: Turn,
        state: State,
        dispatcher: Dispatcher,
        reservations: Reservations,
        reminders: Reminders,
        launching: Launching,
        clock: Clock,
        hooks: Hooks,
    ) -> None:
        self._jobs = jobs
        self._turn = turn
        self._state = state
        self._dispatcher = dispatcher
        self._reservations = reservations
        self._reminders = reminders
        self._launching = launching
        self._clock = clock
        self._hooks = hooks

    def guarded(
        self,
        job: JobId | None,
        event: object,
        happen: Callable[[], None],
        *,
        awaited: Awaited | None = None,
    ) -> None:
        """Let an event happen to a job; if it fails, the job is as it was; see `Turn.guarded`."""
        live = None if job is None else self._jobs.find(job)
        before = None if live is None else (live.job, live.state, live.grant)

        def restore() -> None:
            if job is not None:
                self._jobs.remove(job)
                self._dispatcher.remove(job)
            if live is not None and before is not None:
                live.job, live.state, live.grant = before
                self._jobs.add(live)
                if live.grant is None and live.state.phase is Phase.QUEUED:
                    self._dispatcher.add(live.job)

        self._turn.guarded(event, happen, restore=restore, awaited=awaited)

    def begin(self, job: JobRecord) -> None:
        """Take a job in that waits."""
        self._jobs.add(Live(state_of(job), job))
        self._dispatcher.add(job)

    def arrive(self, job: JobRecord) -> JobRecord:
        """Take a new job in, held if somebody wants that of new jobs; return it as it is then."""
        if not job.held_by and (by := self._hooks.held_from_start(job)):
            self._state.jobs.set_holder(job.id, by)
            job = replace(job, held_by=by)
        self.begin(job)
        return job

    def apply(self, job: JobId, event: machine.Event) -> None:
        """Let something happen to a job; nothing does if it has ended."""
        live = self._jobs.find(job)
        if live is None:
            return
        before = live.state
        if isinstance(event, machine.PodExited) and event.role is Role.DRIVER:
            event = self._with_revival(live, event)
        live.state, actions = machine.transition(before, event)
        verdict = live.state.verdict
        if verdict is not None and verdict != before.verdict and not live.state.phase.is_terminal:
            self._state.jobs.set_verdict(job, verdict.to_dict())
            self._dispatcher.remove(job)  # a compile job may run and wait for memory
        previous = before.phase
        for action in actions:
            if isinstance(action, machine.Enter):
                self._enter(live, previous, action)
                previous = action.phase
            else:
                self._act(live, action)

    def suspend(self, live: Live, by: str, why: str) -> None:
        """Stop a job that runs and queue it again, held by somebody.

        A driver's script is started again later, and its jobs end with it now. The client of any
        other job has lost its run, as by a preemption.
        """
        reason = f"stopped and queued again: held by {by}" + (f" ({why})" if why else "")
        if live.job.type is JobType.DRIVER:
            driver = live.job
            self._turn.after_commit(lambda: self._hooks.script_ended(driver, reason))
            self.tell(live.job.id, PREEMPTED_EVENT, f"the script is {reason}")
        else:
            self.tell(live.job.id, PREEMPTION_EVENT, reason)
        self.apply(live.job.id, machine.Preempted(message=reason))

    def set_limit(self, live: Live, *, elapsed_seconds: float) -> None:
        """Look at a job again when it has held its resources for as long as it may."""
        limit = live.job.requirements.limit_seconds
        if limit is not None:
            at = self._clock.monotonic_seconds() + limit - elapsed_seconds
            self._reminders.set(live.job.id, Alarm.LIMIT, at)

    def tell(
        self, job: JobId, reason: str, message: str, *, subject: str = "", is_warning: bool = True
    ) -> None:
        """Write an event of a job."""
        event = EventRecord(
            job=job,
            at=self._clock.now(),
            reason=reason,
            message=message,
            subject=subject or job,
            is_warning=is_warning,
        )
        self._state.jobs.add_event(event)

    def show(self, job: JobId) -> None:
        """Notify the followers of a job once this turn is committed."""
        self._turn.job_changed(job)

    def _with_revival(self, live: Live, end: machine.PodExited) -> machine.PodExited:
        """Return the end of a driver's pod with why it is started again, if it is."""
        if end.exit_code == 0 or live.state.is_ending or live.state.phase.is_terminal:
            return end
        driver = live.job
        self._turn.after_commit(lambda: self._hooks.script_ended(driver, end.reason))
        revival = self._hooks.pod_lost(driver, end)
        return replace(end, revival=revival, last_words=self._hooks.last_words(driver))

    def _act(self, live: Live, action: machine.Effect) -> None:
        job = live.job.id
        match action:
            case machine.Explain(message=message):
                self._state.jobs.set_message(job, message)
                self._turn.job_changed(job)
            case machine.Unexpected(event=event):
                log_unexpected(live.job, live.state, event, self._state.jobs.events(job))
            case machine.Launch():
                self._launching.launch(live)
            case machine.TellCoordinator():
                self._launching.tell_coordinator(job, action)
            case machine.StopPods():
                self._reminders.clear(job)
                self._launching.stop(live)
            case machine.Remind(seconds=seconds):
                at = self._clock.monotonic_seconds() + seconds
                self._reminders.set(job, Alarm.GRACE, at)
            case _:
                assert_never(action)

    def _enter(self, live: Live, previous: Phase, action: machine.Enter) -> None:
        job, phase = live.job.id, action.phase
        action = replace(action, message=self._end_words(live.job, action))
        grant = None if action.systems is None else live.grant
        self._state.jobs.change_phase(
            job,
            previous,
            phase,
            through=action.through,
            message=action.message,
            systems=action.systems,
            holding=None if grant is None else holding_of(grant),
        )
        if grant is not None:
            self._jobs.hold(live)
            self._reservations.keep(grant)
            if not grant.is_lookup:
                self.set_limit(live, elapsed_seconds=0.0)
        self._count(job, action)
        if phase not in _UNSEEN:
            self._turn.needs_cycle = True
        self._turn.job_changed(job)
        if phase.is_terminal or phase is Phase.QUEUED:
            self._give_back(live, phase)
        if phase.is_terminal:
            self._end(live)
        self._dispatcher.remove(job)
        if phase is Phase.QUEUED:
            starts = live.job.num_starts + 1  # as stored since its admission
            live.job = replace(live.job, phase=phase, num_starts=starts)
            self._dispatcher.add(live.job)

    def _end_words(self, job: JobRecord, action: machine.Enter) -> str:
        """Return why a job enters a phase; one that ends well says what is wrong with its numbers.

        A failed job's reason stands alone: it is the cause, and mostly of the same.
        """
        if job.type is not JobType.EXECUTE or action.phase is not Phase.SUCCEEDED:
            return action.message
        if not self._state.series.may_end_in_gap(job.id):  # a query would split the turn
            return action.message
        numbers = not_finite_words(self._state.series.not_finite(job.id))
        return "; ".join(part for part in (action.message, numbers) if part)

    def _count(self, job: JobId, action: machine.Enter) -> None:
        told = {"job": job, "phase": action.phase.value, "why": action.message}
        if action.through is not None:
            _PHASE_CHANGES[action.through].inc()
            told["through"] = action.through.value
        _PHASE_CHANGES[action.phase].inc()
        logger.info("Job changed phase", extra=told)

    def _give_back(self, live: Live, phase: Phase) -> None:
        job = live.job.id
        self._reminders.clear(job)
        self._launching.forget(job)
        if live.grant is not None:
            self._dispatcher.account_for(live.job, live.grant, phase)
        self._jobs.give_back(live)

    def _end(self, live: Live) -> None:
        job = live.job.id
        self._jobs.remove(job)
        if live.job.type is not JobType.DRIVER:  # that has none, as it has no client
            self._state.leases.end(job)
        self._turn.after_commit(lambda: self._hooks.job_ended(job))
        self._reservations.job_ended(live.job.workflow, self._jobs.workflows())
