"""Reads the appliance's state for each Prometheus scrape: queue, cluster, jobs, pods' readings.

Labels are bounded: only running jobs have series, the newest first and a limited number. Each
reading that pods report is a metric of its own name.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from appliance.core.clock import Clock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.readings import HELP
from appliance.core.cluster.records import PodRecord
from appliance.core.ids import JobId
from appliance.core.queries.job_filter import JobFilter, JobLine, JobOrder
from appliance.management.cluster.inventory import Inventory
from appliance.management.store.state import State

MAX_JOBS = 200
"""Running jobs that are told of one by one."""
_MAX_READINGS = 200
"""Names of readings."""
_READING = re.compile(r"wsc_[a-z0-9_]{1,100}")
_MAX_OUTPUTS = 8
"""Series of one job."""

_GRANTED = tuple(phase for phase in Phase if phase.holds_resources)
_WAITING = (Phase.CREATED, Phase.QUEUED)
_POD_LABELS = ("wsjob", "replica_type", "replica_id")
_BUCKETS = ("p0", "p1", "p2", "p3")


class ApplianceCollector(Collector):
    """Reads the state of the appliance at each scrape.

    Args:
        state: The appliance's database.
        inventory: Systems and nodes.
        clock: Gives the age of what waits.
    """

    def __init__(self, state: State, inventory: Inventory, clock: Clock) -> None:
        self._state = state
        self._inventory = inventory
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the database must not be read before a scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield from self._queue()
        yield from self._cluster()
        running = self._running()
        yield from self._jobs(running)
        pods = self._state.pods.running([job.id for job in running])
        yield from _pod_metrics(pods)
        yield from reading_metrics(pods)

    def _queue(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily(
            "wsc_queue_jobs",
            "Jobs by phase, type and bucket of priority; finished ones as far as they are kept.",
            labels=("phase", "type", "priority"),
        )
        counts = self._state.job_pages.count_by_phase()
        for (phase, kind, bucket), count in sorted(counts.items()):
            jobs.add_metric((phase, kind, _BUCKETS[min(bucket, len(_BUCKETS) - 1)]), count)
        for kind in JobType:  # at 0 rather than absent, so that a panel and a rule have something
            if not any(key[:2] == (Phase.QUEUED.value, kind.value) for key in counts):
                jobs.add_metric((Phase.QUEUED.value, kind.value, "p2"), 0)
        yield jobs
        oldest = self._state.job_pages.page(
            JobFilter(phases=_WAITING, order=JobOrder.OLDEST, limit=1)
        )
        now = self._clock.now()
        wait = (now - oldest[0].created_at).total_seconds() if oldest else 0.0
        yield GaugeMetricFamily(
            "wsc_queue_oldest_wait_seconds", "Age of the job that waits longest.", value=wait
        )

    def _cluster(self) -> Iterator[Metric]:
        uses = self._inventory.system_uses()
        systems = GaugeMetricFamily(
            "wsc_cluster_system_up",
            "Whether a system may get jobs.",
            labels=("system", "state"),
        )
        busy = GaugeMetricFamily(
            "wsc_cluster_system_busy", "Whether a job holds a system.", labels=("system",)
        )
        for use in uses:
            system = use.system
            state = system.state.value if system.is_healthy else "error"
            systems.add_metric((system.name, state), float(state == "up"))
            busy.add_metric((system.name,), float(use.holder is not None))
        yield systems
        yield busy
        cpu = GaugeMetricFamily(
            "wsc_node_cpu_ratio", "CPU load of a node, 1 for all cores.", labels=("node",)
        )
        memory = GaugeMetricFamily(
            "wsc_node_memory_ratio", "Used part of a node's memory.", labels=("node",)
        )
        for node in self._inventory.node_uses():
            cpu.add_metric((node.node.name,), node.load.cpu_percent / 100)
            memory.add_metric((node.node.name,), node.load.memory_percent / 100)
        yield cpu
        yield memory
        groups = GaugeMetricFamily(
            "wsc_cluster_node_group_busy",
            "Whether a job holds a MemoryX node group.",
            labels=("nodegroup", "kind"),
        )
        for group in self._inventory.group_uses():
            labels = (group.group.name, group.group.kind.name.lower())
            groups.add_metric(labels, float(group.holder is not None))
        yield groups

    def _running(self) -> Sequence[JobLine]:
        wanted = JobFilter(phases=_GRANTED, order=JobOrder.NEWEST, limit=MAX_JOBS)
        return self._state.job_pages.page(wanted)

    def _jobs(self, running: Sequence[JobLine]) -> Iterator[Metric]:
        info = GaugeMetricFamily(
            "wsc_job_info",
            "A running job: 1, with what it is.",
            labels=("wsjob", "job_type", "session", "user", "model"),
        )
        ages = GaugeMetricFamily(
            "wsc_job_running_seconds", "Time since a job got its resources.", labels=("wsjob",)
        )
        now = self._clock.now()
        for job in running:
            model = job.labels.get("model", "")
            info.add_metric((job.id, job.type.value, job.session, job.user.name, model), 1)
            if job.started_at is not None:
                ages.add_metric((job.id,), (now - job.started_at).total_seconds())
        yield info
        yield ages
        yield from self._series([job.id for job in running])

    def _series(self, jobs: Sequence[JobId]) -> Iterator[Metric]:
        outputs = GaugeMetricFamily(
            "wsc_job_output_value",
            "Newest value of a scalar output of a job's program, such as its loss.",
            labels=("wsjob", "output"),
        )
        steps = GaugeMetricFamily(
            "wsc_job_steps", "Steps of a job's present session.", labels=("wsjob",)
        )
        latest = self._state.series.latest(jobs) if jobs else {}
        for job, points in latest.items():
            for name, point in sorted(points.items())[:_MAX_OUTPUTS]:
                value = float("nan") if point.value is None else point.value
                outputs.add_metric((job, name), value)
            steps.add_metric((job,), max(point.step for point in points.values()))
        yield outputs
        yield steps


def reading_metrics(pods: Sequence[PodRecord]) -> Iterator[Metric]:
    """Yield what pods report of themselves, one metric for each name of a reading.

    Names that end in `_total` are counters; the others are gauges. Names that are none of ours are
    left out.
    """
    values: defaultdict[str, list[tuple[tuple[str, ...], float]]] = defaultdict(list)
    for pod in pods:
        for name, value in pod.readings.items():
            if _READING.fullmatch(name) and (name in values or len(values) < _MAX_READINGS):
                values[name].append((_labels(pod), value))
    for name, samples in sorted(values.items()):
        yield _family(name, samples)


def _family(name: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    text = HELP.get(name, "A reading that pods report.")
    is_counter = name.endswith("_total")
    kind = CounterMetricFamily if is_counter else GaugeMetricFamily
    family = kind(name.removesuffix("_total"), text, labels=_POD_LABELS)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _pod_metrics(pods: Sequence[PodRecord]) -> Iterator[Metric]:
    resident = GaugeMetricFamily(
        "wsc_pod_resident_bytes", "Resident memory of a pod.", labels=_POD_LABELS
    )
    steps = GaugeMetricFamily(
        "wsc_pod_steps", "Steps that a pod has completed in its session.", labels=_POD_LABELS
    )
    for pod in pods:
        resident.add_metric(_labels(pod), pod.resident_bytes)
        steps.add_metric(_labels(pod), pod.step)
    yield resident
    yield steps


def _labels(pod: PodRecord) -> tuple[str, str, str]:
    return (pod.job, pod.role.value, str(pod.index))
