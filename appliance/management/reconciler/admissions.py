"""The queue's side of the reconciler: requests, and decisions of a scheduling cycle."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from appliance.core.clock import Clock
from appliance.core.cluster.drivers import PREEMPTION_EVENT
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import ConflictError
from appliance.core.ids import JobId
from appliance.management.changes.feed import Topic
from appliance.management.changes.watch import JobWatch
from appliance.management.reconciler import inbox
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.live_jobs import Live, LiveJobs, reprioritise
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.reconciler.scheduling.dispatcher import Dispatcher
from appliance.management.reconciler.scheduling.predecessors import Following, follow
from appliance.management.reconciler.scheduling.reservations import Reservations
from appliance.management.reconciler.scheduling.scheduler_snapshots import holding_of
from appliance.management.reconciler.transition_effects import TransitionEffects
from appliance.management.reconciler.turn import Turn
from appliance.management.store.state import State
from appliance.observability import metrics
from appliance.observability.logging import log_fields
from appliance.scheduler.admission import Admit, Preempt, Reject
from appliance.scheduler.cycle import Decision
from appliance.scheduler.snapshot import Grant

logger = logging.getLogger(__name__)


class Admissions:
    """Carries out requests about the queue, and the decisions of scheduling cycles.

    Args:
        jobs: The jobs that have not ended.
        turn: Collects what follows.
        transitions: Moves jobs.
        dispatcher: The queue.
        reservations: What workflows keep between their jobs.
        state: The appliance's database.
        mailbox: Where everybody reads what the last cycle found.
        watch: Told of jobs whose place in the queue has changed.
        clock: Source of time.
    """

    def __init__(
        self,
        *,
        jobs: LiveJobs,
        turn: Turn,
        transitions: TransitionEffects,
        dispatcher: Dispatcher,
        reservations: Reservations,
        state: State,
        mailbox: Mailbox,
        watch: JobWatch,
        clock: Clock,
    ) -> None:
        self._jobs = jobs
        self._turn = turn
        self._transitions = transitions
        self._dispatcher = dispatcher
        self._reservations = reservations
        self._state = state
        self._mailbox = mailbox
        self._watch = watch
        self._clock = clock

    def run_cycle(self) -> None:
        """Decide about every job that waits, and carry the decisions out."""
        for pending in self._dispatcher.followers():
            found = follow(pending.after, {job: self._phase_of(job) for job in pending.after})
            if found.problem or found.open != pending.after:
                happen = partial(self._settle, pending.id, found)
                self._transitions.guarded(pending.id, found, happen)
        before = self._dispatcher.published
        with log_fields(scheduling_cycle=before.cycle + 1):
            begun = self._clock.monotonic_seconds()
            decisions = self._dispatcher.run_cycle()
            decided = self._clock.monotonic_seconds()
            metrics.CYCLE_SECONDS.observe(decided - begun)
            after = self._mailbox.published = self._dispatcher.published
            self._carry_out_all(decisions)
            if decisions:
                self._log_cycle(
                    len(decisions),
                    deciding_seconds=decided - begun,
                    acting_seconds=self._clock.monotonic_seconds() - decided,
                )
        self._watch.tell(Topic.QUEUE)
        for job in self._watch.followed():
            if before.find(job) != after.find(job):
                self._turn.job_changed(job)

    def _log_cycle(
        self, num_decisions: int, *, deciding_seconds: float, acting_seconds: float
    ) -> None:
        logger.info(
            "Scheduling cycle ended",
            extra={
                "decisions": num_decisions,
                "queued": len(self._dispatcher),
                "deciding_ms": round(1000 * deciding_seconds, 3),
                "acting_ms": round(1000 * acting_seconds, 3),
            },
        )

    def _settle(self, job: JobId, found: Following) -> None:
        """Release a job once those that it follows have succeeded; end it if one never will."""
        if not found.problem:
            self._dispatcher.narrow(job, found.open)
            return
        self._transitions.tell(job, "DependencyFailed", found.problem)
        end = machine.EndRequested(phase=Phase.CANCELLED, message=found.problem)
        self._transitions.apply(job, end)

    def _phase_of(self, job: JobId) -> Phase | None:
        if (live := self._jobs.find(job)) is not None:
            return live.state.phase
        record = self._state.jobs.find(job)
        return None if record is None else record.phase

    def take_request(self, request: inbox.QueueRequest) -> None:
        """Carry out a caller's request about the queue."""
        self._turn.needs_cycle = True
        match request:
            case inbox.Arrived() | inbox.ArrivedTogether():
                self._take_in(request)
            case inbox.Submitted(record=record):
                self._transitions.arrive(record)
            case inbox.Reprioritised():
                self._reprioritise(request)
            case inbox.WantsCompile():
                self._queue_compile(request)
            case inbox.HeldBack():
                self._hold_back(request)
            case inbox.Holds(workflow=workflow):
                self._reservations.hold(workflow, self._jobs.held())
            case inbox.Releases(workflow=workflow):
                self._reservations.release(workflow)
            case inbox.Stops(reason=reason):
                self._stop(reason)
            case inbox.Wake():
                pass
            case _:
                assert_never(request)

    def _take_in(self, request: inbox.Arrived | inbox.ArrivedTogether) -> None:
        if isinstance(request, inbox.ArrivedTogether):
            records = [self._transitions.arrive(record) for record in request.store()]
            self._turn.answer(request.committed, records)
            return
        record = request.store()
        if record.id == request.job:
            record = self._transitions.arrive(record)
        self._turn.answer(request.committed, record)

    def _reprioritise(self, request: inbox.Reprioritised) -> None:
        self._dispatcher.reprioritise(request.job, request.priority)
        if (live := self._jobs.find(request.job)) is not None:
            reprioritise(live, request.priority)

    def _queue_compile(self, request: inbox.WantsCompile) -> None:
        live = self._jobs.find(request.job)
        if live is None or live.grant is None or live.state.is_ending:
            return
        if request.num_systems and self._reservations.is_open(live.job.workflow):
            self._reserve_ahead(live.job, request.num_systems)
        if live.grant.is_lookup and not request.is_cached:
            self._dispatcher.add_compile(live.job)

    def _reserve_ahead(self, job: JobRecord, num_systems: int) -> None:
        """Reserve for a workflow, from its compile on, what its execute job would get now."""
        found = self._dispatcher.would_execute(job, num_systems)
        if not isinstance(found, Admit):
            return
        self._reservations.keep(found.grant)
        message = f"{', '.join(found.grant.systems)} kept for the workflow"
        self._transitions.tell(job.id, "SystemsReserved", message, is_warning=False)

    def _hold_back(self, request: inbox.HeldBack) -> None:
        job = request.job
        live = self._jobs.find(job)
        if live is None or not (request.stops or self._dispatcher.has(job)):
            phase = "has ended" if live is None else f"is {live.state.phase.value}"
            late = ConflictError(f"Job {job} {phase}; only what waits can be held or released.")
            self._turn.refuse(request.committed, late)
            return
        self._state.jobs.set_holder(job, request.by)
        live.job = replace(live.job, held_by=request.by)
        self._dispatcher.hold_back(job, request.by)
        reason, message = ("Held", f"held by {request.by}") if request.by else ("Released", "")
        self._transitions.tell(job, reason, message, is_warning=False)
        if request.stops and request.by and live.grant is not None:
            self._transitions.suspend(live, request.by, request.why)
        self._turn.answer(request.committed)
        self._turn.job_changed(job)

    def _stop(self, reason: str) -> None:
        if (event := self._dispatcher.stop(reason)) is not None:
            self._state.system_events.add(event)
            logger.warning("Admissions", extra={**event.details, "why": event.note})

    def _carry_out_all(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            metrics.DECISIONS.labels(type(decision).__name__.lower()).inc()
            self._transitions.guarded(decision.job, decision, partial(self._carry_out, decision))

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Admit(job=job, grant=grant):
                self._admit(self._jobs[job], grant)
            case Reject(job=job, error=error):
                self._reject(self._jobs[job], str(error))
            case Preempt(job=job, reason=reason):
                self._transitions.tell(job, PREEMPTION_EVENT, reason)
                self._transitions.apply(job, machine.Preempted(message=reason))
            case _:
                assert_never(decision)

    def _admit(self, live: Live, grant: Grant) -> None:
        job = live.job.id
        is_first, live.grant = live.grant is None, grant
        if is_first:
            self._time_start(live.job)
            self._transitions.apply(job, machine.Admitted(systems=grant.systems))
            return
        # A compile job that looked into the cache in vain now gets what compiling takes.
        self._dispatcher.remove(job)
        self._state.jobs.set_holding(job, holding_of(grant))
        self._transitions.set_limit(live, elapsed_seconds=0.0)
        message = "what compiling takes was granted"
        self._transitions.tell(job, "CompileAdmitted", message, is_warning=False)
        self._turn.job_changed(job)

    def _reject(self, live: Live, message: str) -> None:
        job: JobId = live.job.id
        self._transitions.tell(job, "SchedulingFailed", message)
        self._dispatcher.remove(job)
        if live.grant is None:
            self._transitions.apply(job, machine.Rejected(message=message))
        else:
            end = machine.EndRequested(phase=Phase.FAILED, message=message)
            self._transitions.apply(job, end)

    def _time_start(self, job: JobRecord) -> None:
        delay = self._clock.now() - job.created_at
        metrics.START_DELAY_SECONDS.labels(job.type.value).observe(delay.total_seconds())
