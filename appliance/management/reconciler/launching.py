"""Orders to the launcher and to coordinators, after the commit of the turn that decided them."""

from collections.abc import Callable
from pathlib import Path

from appliance.cluster.launcher import Launcher
from appliance.core.errors import ClusterError
from appliance.core.ids import JobId
from appliance.management.pods.coordinators import Coordinators
from appliance.management.pods.per_job_executor import PerJobExecutor
from appliance.management.pods.pod_planner import PlannedPods
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.reconciler.messages import Happened, PodsLaunched
from appliance.management.reconciler.turn import Turn


class Launching:
    """Launches, stops and forgets the pods of jobs, each job's orders in their order.

    Args:
        launcher: Where pods run.
        coordinators: How a coordinator is told that its job ends.
        mailbox: Told what came of a launch.
        turn: Says when what led to an order is committed.
    """

    def __init__(
        self, launcher: Launcher, coordinators: Coordinators, mailbox: Mailbox, turn: Turn
    ) -> None:
        self.launcher = launcher
        self._coordinators = coordinators
        self._mailbox = mailbox
        self._turn = turn
        self._executor = PerJobExecutor() if launcher.is_far else None

    def launch(self, job: JobId, planned: PlannedPods) -> None:
        """Launch the pods of a job that holds its grant."""
        self._order(job, lambda: self._launch(job, planned))

    def stop(self, job: JobId, is_meant: Callable[[], bool]) -> None:
        """Stop the pods of a job, if that is still meant when it is done."""
        self._order(job, lambda: self.launcher.stop(job) if is_meant() else None)

    def forget(self, job: JobId) -> None:
        """Have the launcher forget a run of a job that is over."""
        self._order(job, lambda: self.launcher.forget(job))

    def tell_coordinator(self, job: JobId, action: machine.TellCoordinator) -> None:
        """Tell a job's coordinator that the job ends, and why."""
        directory: Path = self.launcher.runtime_dir(job)
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

    def fail(self, job: JobId, error: Exception) -> None:
        """Report that a job's pods cannot be launched."""
        failed = machine.LaunchFailed(message=f"job could not be launched: {error}")
        self._mailbox.post(Happened(job=job, event=failed))

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
            pids = dict(self.launcher.launch(planned.pods, planned.request))
        except (ClusterError, OSError) as error:
            self.fail(job, error)
            return
        self._mailbox.post(PodsLaunched(job=job, pids=pids))
