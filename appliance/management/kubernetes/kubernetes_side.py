"""Everything that management runs in addition when its pods are pods of a Kubernetes cluster."""

import logging
import platform
import secrets
import threading
from collections.abc import Callable
from pathlib import Path

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.leadership import Leadership
from appliance.cluster.kubernetes.object_kinds import LEADER_LABEL, POD
from appliance.cluster.kubernetes.options import KubernetesOptions, OnDrain, parse_options
from appliance.core.clock import Clock
from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId, PodName
from appliance.core.queries.job_filter import JobLine
from appliance.management.cluster.inventory import Inventory
from appliance.management.cluster.system_service import SystemService
from appliance.management.kubernetes.namespaced_jobs import NamespacedJobs
from appliance.management.kubernetes.unmapped_wsjobs import UnmappedWsJobs
from appliance.management.kubernetes.wscsystems import WscSystems
from appliance.management.kubernetes.wsjobs import JobServices
from appliance.management.store.own_process import start_again
from appliance.management.store.state import State

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


class Candidacy:
    """One management's candidacy; nothing else of it may start before it leads.

    Args:
        text: The settings, as YAML.
        clock: Times the lease.
    """

    def __init__(self, text: str, clock: Clock) -> None:
        self.options: KubernetesOptions = parse_options(text, source="The Kubernetes settings")
        self._clock = clock
        self.api = ApiServer.connect(self.options.namespace)
        self._own_pod = platform.node()
        self._withdrawn = threading.Event()
        self._leadership = Leadership(
            self.api,
            name=self.options.lease_name,
            identity=f"{self._own_pod}-{secrets.token_hex(4)}",
            seconds=self.options.lease_seconds,
            clock=clock,
            on_lost=start_again,
            is_alone=self.options.is_alone,
            on_wait=self._say_waits,
            labels=self.options.object_labels,
        )

    def lead(self) -> bool:
        """Wait until this management leads; False if `withdraw` came first."""
        self._say_leads(leads=False)
        if not self._leadership.acquire():
            return False
        self._say_waits(0.0)
        self._say_leads(leads=True)
        return True

    def withdraw(self) -> None:
        """Give the lead back, or wait for it no longer."""
        self._withdrawn.set()
        try:
            self._label(leads=False)
        except ApiError:  # the lease runs out by itself, and the next leader labels its own pod
            logger.warning("The leader's label is not taken away", exc_info=True)
        finally:
            self._leadership.release()
            self.api.close()

    def _say_waits(self, seconds: float) -> None:
        """Tell the probes of our container for how long a live leader is known to be there.

        They may be another process of the same kernel: its monotonic clock is theirs, too.
        """
        if (file := self.options.standby_file) is None:
            return
        until = self._clock.monotonic_seconds() + seconds
        fresh = Path(f"{file}.new")
        fresh.write_text(f"{until if seconds else 0.0}\n")
        fresh.replace(file)

    def _say_leads(self, *, leads: bool) -> None:
        """Label our own pod; while the API server is away, wait for it rather than end."""
        while not self._withdrawn.is_set():
            try:
                self._label(leads=leads)
                return
            except ApiError as error:
                if not error.is_unavailable:
                    raise
                logger.warning("The leader's label is set later", extra={"why": error.message})
            self._withdrawn.wait(_RETRY_SECONDS)

    def _label(self, *, leads: bool) -> None:
        """Label our own pod, which a Service picks the leader by; without a pod nothing is said."""
        if not self.api.is_inside:
            return
        label = {LEADER_LABEL: "true" if leads else None}
        self.api.patch(POD, self._own_pod, {"metadata": {"labels": label}})


class KubernetesSide:
    """The launcher and the objects that show jobs and systems.

    Attributes:
        jobs: The wsjobs.
        launcher: Launches their pods.

    Args:
        candidacy: Knows the cluster; leads.
        state: The appliance's database.
    """

    def __init__(self, candidacy: Candidacy, state: State, clock: Clock) -> None:
        self._api, self._options, self._clock = candidacy.api, candidacy.options, clock
        self.jobs = NamespacedJobs(self._api, self._options, state, clock)
        self.launcher = self.jobs.launcher
        self._systems: WscSystems | None = None
        self._unmapped: UnmappedWsJobs | None = None

    def namespace_of(self, job: JobRecord | JobLine) -> str:
        """Return where the wsjob of a job is, or will be; empty once it is gone."""
        return self.jobs.namespace_of(job)

    def may_start(self, job: JobId) -> bool:
        """Whether the pods of a job have been let start."""
        return self.jobs.launcher.may_start(job)

    def hosts_of(self, pod: PodName, job: JobId) -> frozenset[str]:
        """Return the addresses that a pod has according to the API server; empty if unknown."""
        return self.jobs.launcher.hosts_of(pod, job)

    @property
    def requeues_disrupted(self) -> bool:
        """Whether a job whose pod was taken away goes back into the queue, if it can."""
        return self._options.on_drain is OnDrain.REQUEUE

    def start(
        self,
        services: JobServices,
        inventory: Inventory,
        systems: SystemService,
        *,
        listen: Callable[[Callable[[str], None]], None],
    ) -> None:
        """Begin to show jobs and systems, and to take orders.

        Args:
            services: What jobs are asked of, and changed by.
            inventory: Which systems there are.
            systems: Changes them.
            listen: Takes whom to tell of each job that changes.
        """
        self._systems = WscSystems(
            self._api, inventory, systems, self._clock, labels=self._options.object_labels
        )
        listen(self.jobs.look_at)
        listen(self._systems.look)
        self.jobs.start(services)
        self._systems.start()
        if self._options.tell_unmapped and self._options.sessions:
            self._unmapped = UnmappedWsJobs(self._api, self._options, self._clock)
            self._unmapped.start()

    def close(self) -> None:
        """Stop; pods and objects stay as they are, for the next management."""
        for part in (self._unmapped, self._systems):
            if part is not None:
                part.close()
        self.jobs.close()
