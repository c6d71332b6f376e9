"""What an execute job works with; the coordinator's process creates it once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.coordinator.compile.artifacts import ArtifactStore
from appliance.coordinator.console import Console
from appliance.coordinator.run.kernel_selection import KernelTable
from appliance.coordinator.run.series import SeriesLog
from appliance.coordinator.starvation import StarvationWatch
from appliance.coordinator.weights.initializer import Initializer
from appliance.core.clock import Clock
from appliance.core.plans.plan import Plan
from appliance.core.pods.pod_spec import PodSpec
from appliance.wafer.hardware import Machine
from protos.wsc.v1.management_pb2 import JobEventReport, RunSessionReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """What an execute job works with.

    Attributes:
        spec: The coordinator pod.
        artifacts: Compiled programs.
        parse_plan: Reads a plan's text.
        initializer: Computes deferred initial values; None if the user reports no environment.
        announce_failure: Tells management why the job failed, and what to add to the job's list;
            returns when it knows.
        machine: What each system is, for simulated times.
        announce_event: Tells management of something for the job's list; returns when it knows.
        announce_session: Tells management that a session is over, with an event for the job's
            list if there is one; returns when it knows.
        console: Takes lines for the user.
        starvation: Notices systems that wait for batches.
        series: Takes what training shows.
        kernels: What was measured of kernels; None has them chosen by rule.
    """

    spec: PodSpec
    clock: Clock
    artifacts: ArtifactStore
    parse_plan: Callable[[str], Plan]
    initializer: Initializer | None
    announce_failure: Callable[[str, Sequence[JobEventReport]], None]
    machine: Machine
    announce_event: Callable[[JobEventReport], None]
    announce_session: Callable[[RunSessionReport, JobEventReport | None], None]
    console: Console
    starvation: StarvationWatch
    series: SeriesLog
    kernels: KernelTable | None
