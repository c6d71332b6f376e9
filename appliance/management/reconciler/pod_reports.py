"""The launcher's reports of pods, including those that outlived an earlier management."""

import logging
from collections.abc import Mapping, MutableMapping
from typing import assert_never

from appliance.cluster.launcher import JobStopped, LauncherLost, PodExit, PodsWait, Survivor
from appliance.core.clock import Clock
from appliance.core.cluster.drivers import DISRUPTION_EVENT, NODE_LOST_EVENT
from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId, PodName
from appliance.core.pods.end_cause import EndCause
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.launching import Launching
from appliance.management.reconciler.live_jobs import Live, LiveJobs, lost_pod
from appliance.management.reconciler.reminders import Alarm, Reminders
from appliance.management.reconciler.resumption import resume
from appliance.management.reconciler.scheduling.dispatcher import Dispatcher
from appliance.management.reconciler.scheduling.scheduler_snapshots import grant_of
from appliance.management.reconciler.transition_effects import TransitionEffects
from appliance.management.store.state import State

logger = logging.getLogger(__name__)


class PodEvents:
    """Handles events of pods.

    Args:
        jobs: The jobs that have not ended.
        transitions: Moves them.
        launching: Launches and stops pods.
        dispatcher: Estimates how long jobs run.
        reminders: When jobs are looked at again.
        state: The appliance's database.
        clock: Source of time.
        waits: Why pods of a job that were launched do not run yet, by job; for whoever asks.
        requeues_disrupted: Whether a job whose pod was taken away goes back into the queue, if it
            can, in place of failing.
    """

    def __init__(
        self,
        *,
        jobs: LiveJobs,
        transitions: TransitionEffects,
        launching: Launching,
        dispatcher: Dispatcher,
        reminders: Reminders,
        state: State,
        clock: Clock,
        waits: MutableMapping[JobId, str],
        requeues_disrupted: bool,
    ) -> None:
        self._waits = waits
        self._requeues_disrupted = requeues_disrupted
        self._jobs = jobs
        self._transitions = transitions
        self._launching = launching
        self._dispatcher = dispatcher
        self._reminders = reminders
        self._state = state
        self._clock = clock

    def launched(self, job: JobId, pids: Mapping[PodName, int]) -> None:
        """Record that all pods of a job were started."""
        self._state.pods.set_running(dict(pids))
        logger.debug("Pods launched", extra={"job": job, "pods": len(pids)})
        self._transitions.apply(job, machine.Launched())

    def take(self, item: PodExit | JobStopped | LauncherLost | PodsWait) -> None:
        """Handle what a launcher reports."""
        match item:
            case PodExit():
                self.exited(item)
            case JobStopped():
                self.stopped(item)
            case LauncherLost():
                self.lost(item)
            case PodsWait():
                self.wait(item)
            case _:
                assert_never(item)

    def exited(self, end: PodExit) -> None:
        """Record that a pod has ended."""
        live = self._jobs.find(end.job)
        is_expected = live is None or live.state.is_stopping or end.exit_code == 0
        message = "stopped with its job" if is_expected and end.exit_code else end.reason
        exit_code = 0 if is_expected else end.exit_code
        is_news = not is_expected and not self._state.pods.has_ended(end.pod)
        self._state.pods.set_ended(
            end.pod, exit_code=exit_code, message=message, at=self._clock.now()
        )
        if is_news:
            story = {"job": end.job, "pod": end.pod, "how": end.reason, "cause": end.cause.value}
            logger.warning("Pod ended", extra=story)
        event = machine.PodExited(
            pod=end.pod,
            role=end.role,
            exit_code=end.exit_code,
            reason=end.reason,
            cause=end.cause,
            is_disruption=self._requeues_disrupted and end.cause.is_disruption,
        )
        if is_news:
            self._tell(end.job, event)
        self._transitions.apply(end.job, event)

    def wait(self, news: PodsWait) -> None:
        """Take note why pods of a job do not run yet, or that none waits any more."""
        live = self._jobs.find(news.job)
        is_past = live is None or live.state.is_stopping
        reason = "" if is_past else news.reason
        if self._waits.get(news.job, "") == reason:
            return
        if not reason:
            del self._waits[news.job]
        else:
            self._waits[news.job] = reason
            self._transitions.tell(news.job, "PodsWait", reason)
        self._transitions.show(news.job)

    def stopped(self, end: JobStopped) -> None:
        """Record that nothing of a job runs any more."""
        self._waits.pop(end.job, None)
        self._state.pods.set_stopped(end.job, at=self._clock.now())
        if end.job in self._jobs:
            self._transitions.apply(end.job, machine.Stopped())
        else:
            self._launching.forget(end.job)

    def lost(self, loss: LauncherLost) -> None:
        """Record that the node or fork server of a job's pods was lost."""
        (job,) = loss.jobs
        if (live := self._jobs.find(job)) is not None:
            end = lost_pod(live.job, f"was lost: {loss.reason}")
            self._tell(job, end)
            self._transitions.apply(job, end)
            self._transitions.apply(job, machine.Stopped())

    def resume(self, job: JobRecord, survivor: Survivor | None) -> None:
        """Go on with a job of an earlier management."""
        plan = resume(job, survivor)
        if plan.forgets:
            self._launching.forget(job.id)
        if plan.waits:
            self._transitions.begin(job)
            return
        live = Live(plan.state, job, grant_of(job, self._dispatcher.estimate(job)))
        self._jobs.add(live)
        elapsed = self._clock.now() - (job.started_at or job.created_at)
        if not job.holding.is_lookup:
            self._transitions.set_limit(live, elapsed_seconds=elapsed.total_seconds())
        logger.info("Job goes on", extra={"job": job.id, "phase": job.phase.value})
        if plan.launches:
            self._launching.launch(live)
        self._state.pods.set_running(plan.pids)
        for end in plan.exits:
            self.exited(end)
        for event in plan.events:
            if isinstance(event, machine.PodExited):
                self._tell(job.id, event)
            self._transitions.apply(job.id, event)
        if plan.state.verdict is not None and not live.state.is_stopped:
            # Its client has had all the time of the restart to learn of it.
            self._reminders.set(job.id, Alarm.GRACE, self._clock.monotonic_seconds())

    def _tell(self, job: JobId, end: machine.PodExited) -> None:
        """Write the event of a pod that has ended though its job needed it."""
        reason = NODE_LOST_EVENT if end.cause is EndCause.NODE_LOST else "Error"
        if end.is_disruption:
            reason = DISRUPTION_EVENT
        self._transitions.tell(job, reason, f"{end.pod} {end.reason}", subject=end.pod)
