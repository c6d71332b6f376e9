"""Who decides about jobs beside the reconciler, and who wants to know of them."""

from dataclasses import dataclass

from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId
from appliance.management.jobs.driver_restarts import DriverRestarts
from appliance.management.kubernetes.namespaced_jobs import NamespacedJobs
from appliance.management.logs.job_traces import JobTraces
from appliance.management.pods.held_ports import HeldPorts
from appliance.management.reconciler import job_machine as machine


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListeners:
    """The `JobListener` of an appliance.

    Attributes:
        restarts: Decides whether scripts of drivers begin again.
        traces: Traces jobs that have ended.
        ports: Keeps the ports of coordinators for a while.
        wsjobs: Jobs as objects of a Kubernetes cluster; None where pods do not run there.
    """

    restarts: DriverRestarts
    traces: JobTraces
    ports: HeldPorts
    wsjobs: NamespacedJobs | None

    def held_from_start(self, job: JobRecord) -> str:
        """Return what holds a new job that nobody holds; empty if it may start."""
        return "" if self.wsjobs is None else self.wsjobs.held_from_start(job)

    def pod_lost(self, driver: JobRecord, end: machine.PodExited) -> str:
        """Return why a driver whose pod has ended badly is started again; empty if it is not."""
        return self.restarts.pod_lost(driver, end)

    def last_words(self, driver: JobRecord) -> str:
        """Return the last error that the script of such a driver printed; may be empty."""
        return self.restarts.last_words(driver)

    def script_ended(self, driver: JobRecord, how: str) -> None:
        """Take note of the end of such a script, once committed and before it starts again."""
        self.restarts.script_ended(driver, how)

    def job_ended(self, job: JobId) -> None:
        """Take note, without waiting, that a job has ended, once that is committed."""
        self.traces.job_ended(job)
        self.ports.job_ended(job)
