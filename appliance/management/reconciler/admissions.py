"""The queue's side of the reconciler: requests, and decisions of a scheduling cycle."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from appliance.core.cluster.drivers import PREEMPTION_EVENT
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import ConflictError
from appliance.core.ids import JobId
from appliance.management.changes.watch import Topic
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler import mailbox
from appliance.management.reconciler.scheduling.array_places import changed_places
from appliance.management.reconciler.scheduling.predecessors import Following, follow
from appliance.management.reconciler.transitions import apply, arrive, set_limit, stop_and_queue
from appliance.management.reconciler.world import LiveJob, World, guarded, tell
from appliance.observability import metrics
from appliance.observability.logging import log_fields
from appliance.scheduler.admission import Admit, Preempt, Reject
from appliance.scheduler.cycle import Decision
from appliance.scheduler.snapshot import Grant

logger = logging.getLogger(__name__)


def run_cycle(world: World) -> None:
    """Decide about every job that waits, and carry the decisions out."""
    for pending in world.queue.followers():
        named = {job for each in pending.after for job in each.jobs}
        found = follow(pending.after, {job: _phase_of(world, job) for job in named})
        if found.problem or found.open != pending.after:
            happen = partial(_settle, world, pending.id, found)
            guarded(world, pending.id, found, happen)
    if limited := world.queue.in_limited_arrays():
        started = Counter(world.jobs[grant.job].record.array for grant in world.jobs.held())
        for job, awaits in changed_places(limited, started).items():
            world.queue.give_place(job, awaits=awaits)
    before = world.queue.published
    with log_fields(scheduling_cycle=before.cycle + 1):
        begun = world.clock.monotonic_seconds()
        decisions = world.queue.run_cycle()
        decided = world.clock.monotonic_seconds()
        metrics.CYCLE_SECONDS.observe(decided - begun)
        after = world.mailbox.published = world.queue.published
        _carry_out_all(world, decisions)
        if decisions:
            _log_cycle(
                world,
                len(decisions),
                deciding_seconds=decided - begun,
                acting_seconds=world.clock.monotonic_seconds() - decided,
            )
    world.watch.tell(Topic.QUEUE)
    for job in world.watch.followed():
        if before.find(job) != after.find(job):
            world.turn.job_changed(job)


def _log_cycle(
    world: World, num_decisions: int, *, deciding_seconds: float, acting_seconds: float
) -> None:
    logger.info(
        "Scheduling cycle ended",
        extra={
            "decisions": num_decisions,
            "queued": len(world.queue),
            "deciding_ms": round(1000 * deciding_seconds, 3),
            "acting_ms": round(1000 * acting_seconds, 3),
        },
    )


def _settle(world: World, job: JobId, found: Following) -> None:
    """Release a job once those that it follows have ended so; end it if one never will."""
    if not found.problem:
        world.queue.narrow(job, found.open)
        return
    tell(world, job, "DependencyFailed", found.problem)
    end = machine.EndRequested(phase=Phase.CANCELLED, message=found.problem)
    apply(world, job, end)


def _phase_of(world: World, job: JobId) -> Phase | None:
    if (live := world.jobs.find(job)) is not None:
        return live.run.phase
    record = world.state.jobs.find(job)
    return None if record is None else record.phase


def take_request(world: World, request: mailbox.QueueRequest) -> None:
    """Carry out a caller's request about the queue."""
    world.turn.needs_cycle = True
    match request:
        case mailbox.Arrived() | mailbox.ArrivedTogether():
            _take_in(world, request)
        case mailbox.Submitted(record=record):
            arrive(world, record)
        case mailbox.Reprioritised():
            _reprioritise(world, request)
        case mailbox.WantsCompile():
            _queue_compile(world, request)
        case mailbox.HeldBack() | mailbox.Requeued():
            _hold_or_requeue(world, request)
        case mailbox.Holds(workflow=workflow):
            world.reservations.hold(workflow, world.jobs.held())
        case mailbox.Releases(workflow=workflow):
            world.reservations.release(workflow)
        case mailbox.Stops(reason=reason):
            _stop(world, reason)
        case mailbox.Wake():
            pass
        case _:
            assert_never(request)


def _take_in(world: World, request: mailbox.Arrived | mailbox.ArrivedTogether) -> None:
    if isinstance(request, mailbox.ArrivedTogether):
        records = [arrive(world, record) for record in request.store()]
        world.turn.answer(request.committed, records)
        return
    record = request.store()
    if record.id == request.job:
        record = arrive(world, record)
    world.turn.answer(request.committed, record)


def _reprioritise(world: World, request: mailbox.Reprioritised) -> None:
    world.queue.reprioritise(request.job, request.priority)
    live, priority = world.jobs.find(request.job), request.priority
    if live is not None:
        grant = None if live.grant is None else replace(live.grant, priority=priority)
        record = replace(live.record, priority=priority)
        world.jobs.put(replace(live, record=record, grant=grant))


def _queue_compile(world: World, request: mailbox.WantsCompile) -> None:
    live = world.jobs.find(request.job)
    if live is None or live.grant is None or live.run.is_ending:
        return
    if request.num_systems and world.reservations.is_open(live.record.workflow):
        _reserve_ahead(world, live.record, request.num_systems)
    if live.grant.is_lookup and not request.is_cached:
        world.queue.add_compile(live.record)


def _reserve_ahead(world: World, job: JobRecord, num_systems: int) -> None:
    """Reserve for a workflow, from its compile on, what its execute job would get now."""
    found = world.queue.would_execute(job, num_systems)
    if not isinstance(found, Admit):
        return
    world.reservations.keep(found.grant)
    message = f"{', '.join(found.grant.systems)} kept for the workflow"
    tell(world, job.id, "SystemsReserved", message, is_warning=False)


def _hold_or_requeue(world: World, request: mailbox.HeldBack | mailbox.Requeued) -> None:
    if isinstance(request, mailbox.HeldBack):
        _hold_back(world, request)
    else:
        _requeue(world, request)


def _hold_back(world: World, request: mailbox.HeldBack) -> None:
    job = request.job
    live = world.jobs.find(job)
    if live is None or not (request.stops or world.queue.has(job)):
        phase = "has ended" if live is None else f"is {live.run.phase.value}"
        late = ConflictError(f"Job {job} {phase}; only what waits can be held or released.")
        world.turn.refuse(request.committed, late)
        return
    live = world.jobs.put_record(world.state.jobs.set_holder(live.record, request.by))
    world.queue.hold_back(job, request.by)
    reason, message = ("Held", f"held by {request.by}") if request.by else ("Released", "")
    tell(world, job, reason, message, is_warning=False)
    if request.stops and request.by and live.grant is not None:
        why = f" ({request.why})" if request.why else ""
        stop_and_queue(world, live, f"stopped and queued again: held by {request.by}{why}")
    world.turn.answer(request.committed)
    world.turn.job_changed(job)


def _requeue(world: World, request: mailbox.Requeued) -> None:
    live = world.jobs.find(request.job)
    if live is None or live.grant is None:
        what = "has ended" if live is None else "waits already"
        late = ConflictError(f"Job {request.job} {what}; only what runs is queued again.")
        world.turn.refuse(request.committed, late)
        return
    stop_and_queue(world, live, f"stopped and queued again by {request.by}")
    world.turn.answer(request.committed)


def _stop(world: World, reason: str) -> None:
    if (event := world.queue.stop(reason)) is not None:
        world.state.system_events.add(event)
        logger.warning("Admissions", extra={**event.details, "why": event.note})


def _carry_out_all(world: World, decisions: Sequence[Decision]) -> None:
    for decision in decisions:
        metrics.DECISIONS.labels(type(decision).__name__.lower()).inc()
        guarded(world, decision.job, decision, partial(_carry_out, world, decision))


def _carry_out(world: World, decision: Decision) -> None:
    match decision:
        case Admit(job=job, grant=grant):
            _admit(world, world.jobs[job], grant)
        case Reject(job=job, error=error):
            _reject(world, world.jobs[job], str(error))
        case Preempt(job=job, reason=reason):
            tell(world, job, PREEMPTION_EVENT, reason)
            apply(world, job, machine.Preempted(message=reason))
        case _:
            assert_never(decision)


def _admit(world: World, live: LiveJob, grant: Grant) -> None:
    job = live.id
    world.jobs.put(LiveJob(record=live.record, run=live.run, grant=grant))
    if live.grant is None:
        _time_start(world, live.record)
        apply(world, job, machine.Admitted(systems=grant.systems))
        return
    # A compile job that looked into the cache in vain now gets what compiling takes.
    world.queue.remove(job)
    record = world.state.jobs.set_holding(live.record, grant.holding)
    world.jobs.put_record(record)
    set_limit(world, record, elapsed_seconds=0.0)
    message = "what compiling takes was granted"
    tell(world, job, "CompileAdmitted", message, is_warning=False)
    world.turn.job_changed(job)


def _reject(world: World, live: LiveJob, message: str) -> None:
    job = live.id
    tell(world, job, "SchedulingFailed", message)
    world.queue.remove(job)
    if live.grant is None:
        apply(world, job, machine.Rejected(message=message))
    else:
        end = machine.EndRequested(phase=Phase.FAILED, message=message)
        apply(world, job, end)


def _time_start(world: World, job: JobRecord) -> None:
    delay = world.clock.now() - job.created_at
    metrics.START_DELAY_SECONDS.labels(job.type.value).observe(delay.total_seconds())
