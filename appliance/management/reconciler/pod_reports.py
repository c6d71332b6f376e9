"""The launcher's reports of pods, including those that outlived an earlier management."""

import logging
from collections.abc import Mapping
from typing import assert_never

from appliance.cluster.launcher import JobStopped, LauncherLost, PodExit, PodsWait, Survivor
from appliance.core.cluster.drivers import DISRUPTION_EVENT, NODE_LOST_EVENT
from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId, PodName
from appliance.core.pods.end_cause import EndCause
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.resumption import resume
from appliance.management.reconciler.scheduling.dispatcher import grant_of
from appliance.management.reconciler.transitions import apply, begin, launch, set_limit
from appliance.management.reconciler.world import Alarm, LiveJob, World, lost_pod, tell

logger = logging.getLogger(__name__)


def launched(world: World, job: JobId, pids: Mapping[PodName, int]) -> None:
    """Record that all pods of a job were started."""
    world.state.pods.set_running(dict(pids))
    logger.debug("Pods launched", extra={"job": job, "pods": len(pids)})
    apply(world, job, machine.Launched())


def take_report(world: World, report: PodExit | JobStopped | LauncherLost | PodsWait) -> None:
    """Handle what a launcher reports."""
    match report:
        case PodExit():
            exited(world, report)
        case JobStopped():
            stopped(world, report)
        case LauncherLost():
            lost(world, report)
        case PodsWait():
            wait(world, report)
        case _:
            assert_never(report)


def exited(world: World, end: PodExit) -> None:
    """Record that a pod has ended."""
    live = world.jobs.find(end.job)
    is_expected = live is None or live.run.is_stopping or end.exit_code == 0
    message = "stopped with its job" if is_expected and end.exit_code else end.reason
    exit_code = 0 if is_expected else end.exit_code
    is_news = not is_expected and not world.state.pods.has_ended(end.pod)
    world.state.pods.set_ended(end.pod, exit_code=exit_code, message=message, at=world.clock.now())
    if is_news:
        story = {"job": end.job, "pod": end.pod, "how": end.reason, "cause": end.cause.value}
        logger.warning("Pod ended", extra=story)
    event = machine.PodExited(
        pod=end.pod,
        role=end.role,
        exit_code=end.exit_code,
        reason=end.reason,
        cause=end.cause,
        is_disruption=world.requeues_disrupted and end.cause.is_disruption,
    )
    if is_news:
        _tell(world, end.job, event)
    apply(world, end.job, event)


def wait(world: World, news: PodsWait) -> None:
    """Take note why pods of a job do not run yet, or that none waits any more."""
    live, waits = world.jobs.find(news.job), world.mailbox.pod_waits
    is_past = live is None or live.run.is_stopping
    reason = "" if is_past else news.reason
    if waits.get(news.job, "") == reason:
        return
    if not reason:
        del waits[news.job]
    else:
        waits[news.job] = reason
        tell(world, news.job, "PodsWait", reason)
    world.turn.job_changed(news.job)


def stopped(world: World, end: JobStopped) -> None:
    """Record that nothing of a job runs any more."""
    world.mailbox.pod_waits.pop(end.job, None)
    world.state.pods.set_stopped(end.job, at=world.clock.now())
    if end.job in world.jobs:
        apply(world, end.job, machine.Stopped())
    else:
        world.launching.forget(end.job)


def lost(world: World, loss: LauncherLost) -> None:
    """Record that the node or fork server of a job's pods was lost."""
    (job,) = loss.jobs
    world.mailbox.pod_waits.pop(job, None)
    if (live := world.jobs.find(job)) is not None:
        end = lost_pod(live.record, f"was lost: {loss.reason}")
        _tell(world, job, end)
        apply(world, job, end)
        apply(world, job, machine.Stopped())


def go_on(world: World, job: JobRecord, survivor: Survivor | None) -> None:
    """Go on with a job of an earlier management."""
    plan = resume(job, survivor)
    if plan.forgets:
        world.launching.forget(job.id)
    if plan.waits:
        begin(world, job)
        return
    grant = grant_of(job, world.queue.estimate(job))
    live = world.jobs.put(LiveJob(record=job, run=plan.state, grant=grant))
    elapsed = world.clock.now() - (job.started_at or job.created_at)
    if not job.holding.is_lookup:
        set_limit(world, job, elapsed_seconds=elapsed.total_seconds())
    logger.info("Job goes on", extra={"job": job.id, "phase": job.phase.value})
    if plan.launches:
        launch(world, live)
    world.state.pods.set_running(plan.pids)
    for end in plan.exits:
        exited(world, end)
    for event in plan.events:
        if isinstance(event, machine.PodExited):
            _tell(world, job.id, event)
        apply(world, job.id, event)
    now = world.jobs.find(job.id)
    if plan.state.verdict is not None and now is not None and not now.run.is_stopped:
        # Its client has had all the time of the restart to learn of it.
        world.reminders.set(job.id, Alarm.GRACE, world.clock.monotonic_seconds())


def _tell(world: World, job: JobId, end: machine.PodExited) -> None:
    """Write the event of a pod that has ended though its job needed it."""
    reason = NODE_LOST_EVENT if end.cause is EndCause.NODE_LOST else "Error"
    if end.is_disruption:
        reason = DISRUPTION_EVENT
    tell(world, job, reason, f"{end.pod} {end.reason}", subject=end.pod)
