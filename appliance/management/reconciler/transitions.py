"""How a job changes its phase: the job machine decides, the decision is written, effects follow."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from appliance.core.cluster.drivers import PREEMPTED_EVENT, PREEMPTION_EVENT
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import EventRecord, JobRecord, PodRecord
from appliance.core.cluster.run import not_finite_words
from appliance.core.errors import WscError
from appliance.core.ids import JobId, Role
from appliance.core.pods.pod_spec import PodSpec
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.world import Alarm, LiveJob, World, state_of, tell
from appliance.observability import metrics

logger = logging.getLogger(__name__)

_STORY_EVENTS = 20

_UNSEEN = (Phase.INITIALIZING, Phase.RUNNING)
"""Phases that change nothing of what the scheduler sees."""

_PHASE_CHANGES = {phase: metrics.PHASE_CHANGES.labels(phase.value) for phase in Phase}


def begin(world: World, job: JobRecord) -> None:
    """Take a job in that waits."""
    world.jobs.put(LiveJob(record=job, run=state_of(job)))
    world.queue.add(job)


def arrive(world: World, job: JobRecord) -> JobRecord:
    """Take a new job in, held if somebody wants that of new jobs; return it as it is then."""
    if not job.held_by and (by := world.listener.held_from_start(job)):
        job = world.state.jobs.set_holder(job, by)
    begin(world, job)
    return job


def apply(world: World, job: JobId, event: machine.Event) -> None:
    """Let something happen to a job; nothing does if it has ended."""
    live = world.jobs.find(job)
    if live is None:
        return
    before = live.run
    if isinstance(event, machine.PodExited) and event.role is Role.DRIVER:
        event = _with_revival(world, live, event)
    run, actions = machine.transition(before, event)
    record, verdict = live.record, run.verdict
    if verdict is not None and verdict != before.verdict and not run.phase.is_terminal:
        record = world.state.jobs.set_verdict(record, verdict.to_dict())
        world.queue.remove(job)  # a compile job may run and wait for memory
    world.jobs.put(LiveJob(record=record, run=run, grant=live.grant))
    for action in actions:
        if isinstance(action, machine.Enter):
            _enter(world, world.jobs[job], action)
        else:
            _act(world, world.jobs[job], action)


def stop_and_queue(world: World, live: LiveJob, reason: str) -> None:
    """Stop a job that runs and queue it again, for a reason.

    A driver's script is started again later, and its jobs end with it now. The client of any other
    job has lost its run, as by a preemption.
    """
    if live.record.type is JobType.DRIVER:
        world.turn.after_commit(lambda: world.listener.script_ended(live.record, reason))
        tell(world, live.id, PREEMPTED_EVENT, f"the script is {reason}")
    else:
        tell(world, live.id, PREEMPTION_EVENT, reason)
    apply(world, live.id, machine.Preempted(message=reason))


def set_limit(world: World, job: JobRecord, *, elapsed_seconds: float) -> None:
    """Look at a job again when it has held its resources for as long as it may."""
    limit = job.requirements.limit_seconds
    if limit is not None:
        at = world.clock.monotonic_seconds() + limit - elapsed_seconds
        world.reminders.set(job.id, Alarm.LIMIT, at)


def launch(world: World, live: LiveJob) -> None:
    """Plan the pods of a job that holds its grant, and launch them after the commit."""
    try:
        planned = world.plan_pods(live.record)
        node = world.launching.launcher.node
        world.state.pods.create(_pod_record(spec, spec.node or node) for spec in planned.pods)
    except (WscError, OSError) as error:
        world.launching.fail(live.id, error)
        return
    world.launching.launch(live.id, planned)


def _pod_record(spec: PodSpec, node: str) -> PodRecord:
    return PodRecord(name=spec.name, job=spec.job, role=spec.role, index=spec.index, node=node)


def _with_revival(world: World, live: LiveJob, end: machine.PodExited) -> machine.PodExited:
    """Return the end of a driver's pod with why it is started again, if it is."""
    if end.exit_code == 0 or live.run.is_ending or live.run.phase.is_terminal:
        return end
    driver, listener = live.record, world.listener
    world.turn.after_commit(lambda: listener.script_ended(driver, end.reason))
    revival = listener.pod_lost(driver, end)
    return replace(end, revival=revival, last_words=listener.last_words(driver))


def _act(world: World, live: LiveJob, action: machine.Effect) -> None:
    job = live.id
    match action:
        case machine.Explain(message=message):
            world.jobs.put_record(world.state.jobs.set_message(live.record, message))
            world.turn.job_changed(job)
        case machine.Unexpected(event=event):
            _log_unexpected(live, event, world.state.jobs.events(job))
        case machine.Launch():
            launch(world, live)
        case machine.TellCoordinator():
            world.launching.tell_coordinator(job, action)
        case machine.StopPods():
            world.reminders.clear(job)
            world.launching.stop(job, lambda: _is_over(world, job))
        case machine.Remind(seconds=seconds):
            at = world.clock.monotonic_seconds() + seconds
            world.reminders.set(job, Alarm.GRACE, at)
        case _:
            assert_never(action)


def _is_over(world: World, job: JobId) -> bool:
    """Whether the pods of a job are to be stopped; not if it was queued again meanwhile."""
    live = world.jobs.find(job)
    return live is None or live.run.is_stopping


def _enter(world: World, live: LiveJob, action: machine.Enter) -> None:
    job, phase = live.id, action.phase
    message = _end_words(world, live.record, action)
    grant = None if action.systems is None else live.grant
    record = world.state.jobs.change_phase(
        live.record,
        phase,
        through=action.through,
        message=message,
        systems=action.systems,
        holding=None if grant is None else grant.holding,
    )
    live = world.jobs.put_record(record)
    if grant is not None:
        world.reservations.keep(grant)
        if not grant.is_lookup:
            set_limit(world, record, elapsed_seconds=0.0)
    _count(job, action, message)
    if phase not in _UNSEEN:
        world.turn.needs_cycle = True
    world.turn.job_changed(job)
    if phase.is_terminal or phase is Phase.QUEUED:
        _give_back(world, live, phase)
    if phase.is_terminal:
        _end(world, record)
    world.queue.remove(job)
    if phase is Phase.QUEUED:
        world.queue.add(record)


def _end_words(world: World, job: JobRecord, action: machine.Enter) -> str:
    """Return why a job enters a phase; one that ends well says what is wrong with its numbers.

    A failed job's reason stands alone: it is the cause, and mostly of the same.
    """
    if job.type is not JobType.EXECUTE or action.phase is not Phase.SUCCEEDED:
        return action.message
    if not world.state.series.may_end_in_gap(job.id):  # a query would split the turn
        return action.message
    numbers = not_finite_words(world.state.series.not_finite(job.id))
    return "; ".join(part for part in (action.message, numbers) if part)


def _count(job: JobId, action: machine.Enter, message: str) -> None:
    told = {"job": job, "phase": action.phase.value, "why": message}
    if action.through is not None:
        _PHASE_CHANGES[action.through].inc()
        told["through"] = action.through.value
    _PHASE_CHANGES[action.phase].inc()
    logger.info("Job changed phase", extra=told)


def _give_back(world: World, live: LiveJob, phase: Phase) -> None:
    world.reminders.clear(live.id)
    world.launching.forget(live.id)
    if live.grant is not None:
        world.queue.account_for(live.record, world.jobs.with_progress(live.grant), phase)
        world.jobs.put(LiveJob(record=live.record, run=live.run))


def _end(world: World, job: JobRecord) -> None:
    world.jobs.remove(job.id)
    if job.type is not JobType.DRIVER:  # that has none, as it has no client
        world.state.leases.end(job.id)
    world.turn.after_commit(lambda: world.listener.job_ended(job.id))
    world.reservations.job_ended(job.workflow, world.jobs.workflows())


def _log_unexpected(live: LiveJob, event: machine.Event, story: Sequence[EventRecord]) -> None:
    """Log that a job got an event that its state does not allow, with the job's history.

    The job is not changed. It is a defect of the event's sender, or of the job machine.
    """
    verdict = live.run.verdict
    logger.error(
        "A job was told of something that its phase does not allow; it goes on as before",
        extra={
            "job": live.id,
            "event": str(event),
            "phase": live.run.phase.value,
            "verdict": "" if verdict is None else verdict.phase.value,
            "story": [f"{each.reason}: {each.message}" for each in story[-_STORY_EVENTS:]],
        },
    )
