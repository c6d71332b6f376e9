"""Effects on the launcher and coordinators, after the commit of the turn that decided them."""

from collections.abc import Callable
from pathlib import Path

from appliance.cluster.launcher import Launcher
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import ClusterError, WscError
from appliance.core.ids import JobId
from appliance.management.pods.coordinators import Coordinators
from appliance.management.pods.pod_planner import PlannedPods
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.live_jobs import Live, granted, pod_record
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.reconciler.per_job_executor import PerJobExecutor
from appliance.management.reconciler.turn import Turn
from appliance.management.store.state import State

PlanPods = Callable[[JobRecord], PlannedPods]


class Launching:
    """Launches, stops and forgets the pods of jobs, each job's orders in their order.

    Args:
        launcher: Where pods run.
        coordinators: How a coordinator is told that its job ends.
        plan_pods: Says which pods a job consists of.
        state: The appliance's database.
        mailbox: Told what came of a launch.
        turn: Says when what led to an order is committed.
    """

    def __init__(
        self,
        *,
        launcher: Launcher,
        coordinators: Coordinators,
        plan_pods: PlanPods,
        state: State,
        mailbox: Mailbox,
        turn: Turn,
    ) -> None:
        self._launcher = launcher
        self._coordinators = coordinators
        self._plan_pods = plan_pods
        self._state = state
        self._mailbox = mailbox
        self._turn = turn
        self._executor = PerJobExecutor() if launcher.is_far else None

    def launch(self, live: Live) -> None:
        """Launch the pods of a job that holds its grant."""
        job = live.job.id
        try:
            planned = self._plan_pods(granted(live))
            node = self._launcher.node
            self._state.pods.create(pod_record(spec, spec.node or node) for spec in planned.pods)
        except (WscError, OSError) as error:
            self._tell_failure(job, error)
            return
        self._order(job, lambda: self._launch(job, planned))

    def stop(self, live: Live) -> None:
        """Stop the pods of a job."""
        job = live.job.id
        # By then it may have stopped and been queued again; its new run is not meant.
        self._order(job, lambda: self._launcher.stop(job) if live.state.is_stopping else None)

    def forget(self, job: JobId) -> None:
        """Have the launcher forget a run of a job that is over."""
        self._order(job, lambda: self._launcher.forget(job))

    def tell_coordinator(self, job: JobId, action: machine.TellCoordinator) -> None:
        """Tell a job's coordinator that the job ends, and why."""
        directory: Path = self._launcher.runtime_dir(job)
        self._turn.after_commit(
            lambda: self._coordinators.tell_end(
                job,
                directory,
                reason=action.reason,
                is_failure=action.is_failure,
                pod=action.pod,
                is_preemption=action.is_preemption,
            )
        )

    def close(self, *, timeout_seconds: float) -> None:
        """Drop orders that have not begun, as if management were killed; wait for the others."""
        if self._executor is not None:
            self._executor.close(timeout_seconds=timeout_seconds)

    def _order(self, job: JobId, effect: Callable[[], None]) -> None:
        """Ask something of the launcher once what led to it is committed.

        A launcher on this machine answers at once and is asked here, without a change of threads.
        """
        executor = self._executor
        if executor is None:
            self._turn.after_commit(effect)
        else:
            self._turn.after_commit(lambda: executor.submit(job, effect))

    def _launch(self, job: JobId, planned: PlannedPods) -> None:
        try:
            pids = dict(self._launcher.launch(planned.pods, planned.request))
        except (ClusterError, OSError) as error:
            self._tell_failure(job, error)
            return
        self._mailbox.pods_launched(job, pids)

    def _tell_failure(self, job: JobId, error: Exception) -> None:
        message = f"job could not be launched: {error}"
        self._mailbox.post(job, machine.LaunchFailed(message=message))
