"""Keeps the Workloads of jobs that Kueue queues, and does with jobs what these say.

What is to be done follows from a job and its Workload alone (`kueue_workloads`), so a management
that has missed something does it when it looks again.
"""

import logging
from collections.abc import Callable

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.informer import Informer
from appliance.cluster.kubernetes.object_kinds import JOB_LABEL, Resource, job_label, uid_of
from appliance.cluster.kubernetes.options import KubernetesOptions
from appliance.core.clock import Clock
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import ClusterError, ConflictError
from appliance.core.ids import JobId
from appliance.management.jobs.job_edits import JobEdits
from appliance.management.kubernetes import kueue_workloads as workloads
from appliance.management.kubernetes.kueue_workloads import HELD_BY, Order
from appliance.management.kubernetes.wsjob_objects import owner_reference

logger = logging.getLogger(__name__)


class Kueue:
    """The Workloads of one namespace; without Kueue there are none, and nothing is done.

    Args:
        api: The Kubernetes API.
        options: Whether Kueue is used, and its default queue.

    Raises:
        ClusterError: Kueue is to be used, and the server does not know its kinds.
    """

    def __init__(self, api: ApiServer, options: KubernetesOptions, clock: Clock) -> None:
        self._api, self._options, self._clock = api, options, clock
        self._informer: Informer | None = None
        self._look_at: Callable[[str], None] = lambda _: None
        if options.kueue:
            self._kind = workloads.workload_kind(_version(api))
            self._informer = Informer(api, self._kind, JOB_LABEL, self._changed)

    def start(self, look_at: Callable[[str], None], *, timeout_seconds: float) -> None:
        """Watch Workloads; `look_at` is told of each job whose Workload has changed."""
        self._look_at = look_at
        if self._informer is not None:
            self._informer.start(timeout_seconds=timeout_seconds)

    def close(self) -> None:
        """Watch no more."""
        if self._informer is not None:
            self._informer.close()

    def held_from_start(self) -> str:
        """Return what holds each new job that is not created as a wsjob; empty for nothing."""
        return HELD_BY if self._options.kueue and self._options.kueue_queue else ""

    def manages(self, wsjob: Resource) -> bool:
        """Whether a wsjob goes to a queue of Kueue's."""
        return bool(workloads.queue_of(wsjob, self._options))

    def why_waits(self, job: JobRecord) -> str:
        """Return why Kueue has not let a job start; empty if it is not Kueue that holds it."""
        if job.held_by != HELD_BY:
            return ""
        workload = self._find(job.id)
        return workloads.why_waits(workload) if workload is not None else ""

    def sync(self, job: JobRecord, wsjob: Resource, edits: JobEdits, *, is_active: bool) -> bool:
        """Do what is missing for a job that has not ended.

        Args:
            edits: Changes jobs.
            is_active: Whether its wsjob lets it run.

        Returns:
            Whether the job was changed.
        """
        if not (queue := workloads.queue_of(wsjob, self._options)):
            if job.held_by != HELD_BY:
                return False
            edits.resume(job.id)  # Kueue, or its queue, was taken out of the settings
            return True
        workload = self._find(job.id)
        if workload is None:
            if job.systems and not job.held_by:
                return False  # it ran before Kueue was asked
            self._create(job, wsjob, queue, is_active=is_active)
            return False
        if changes := workloads.spec_changes(job, workload, is_active=is_active):
            self._api.patch(self._kind, workload["metadata"]["name"], {"spec": changes})
        return self._obey(job, workload, edits)

    def finish(self, job: JobRecord) -> None:
        """Let the Workload of a job that has ended say so."""
        workload = self._find(job.id)
        if workload is not None:
            self._write(workload, workloads.finished_status(job, workload, self._clock.now()))

    def _obey(self, job: JobRecord, workload: Resource, edits: JobEdits) -> bool:
        order, now = workloads.order_for(job, workload), self._clock.now()
        try:
            match order:
                case Order.START:
                    edits.resume(job.id)
                case Order.STOP:
                    edits.suspend(job.id, HELD_BY, workloads.why_waits(workload))
                case Order.CLEAR:
                    self._write(workload, workloads.cleared_status(workload, now))
                case Order.NOTHING:
                    self._write(workload, workloads.ready_status(job, workload, now))
        except ConflictError:  # it has ended meanwhile
            logger.info("Job ended before Kueue's word was done", extra={"job": job.id})
        if order is not Order.NOTHING:
            logger.info("Kueue's word is done", extra={"job": job.id, "order": order.value})
        return order in (Order.START, Order.STOP)

    def _create(self, job: JobRecord, wsjob: Resource, queue: str, *, is_active: bool) -> None:
        owner = owner_reference(wsjob)
        body = workloads.new_workload(job, owner, queue, self._options, is_active=is_active)
        try:
            self._api.create(self._kind, body)
        except ApiError as error:
            if not error.is_conflict:
                raise

    def _write(self, workload: Resource, status: Resource | None) -> None:
        if status is None:
            return
        # For this version alone: Kueue writes conditions, too, and a merge replaces all of them.
        metadata = {
            "uid": uid_of(workload),
            "resourceVersion": workload["metadata"]["resourceVersion"],
        }
        name = workload["metadata"]["name"]
        body = {"metadata": metadata, "status": status}
        self._api.patch(self._kind, name, body, subresource="status")

    def _find(self, job: JobId) -> Resource | None:
        if self._informer is None:
            return None
        return self._informer.find(workloads.workload_name(job))

    def _changed(self, workload: Resource) -> None:
        self._look_at(job_label(workload))


def _version(api: ApiServer) -> str:
    served = api.versions_of(workloads.KUEUE_GROUP)
    for version in workloads.VERSIONS:
        if version in served:
            return version
    raise ClusterError(
        f"The Kubernetes API has no Workloads of Kueue in {' or '.join(workloads.VERSIONS)}; it "
        f"has {', '.join(served) or 'none'}.",
        hint="Install Kueue 0.9 or newer, or set jobs.kueue.enabled to false.",
    )
