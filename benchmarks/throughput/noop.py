"""An appliance whose jobs are no-ops: everything is real but the processes of pods.

The launcher starts nothing. It says that the pods run, registers the coordinator as the coordinator
would, and lets it end when it is told to; the script of a detached run has ended at once, with exit
code 0. So each job goes through all its phases, in SQL, with its events, its pods, its lease and
its grant, and management logs what it always logs.

Run as a program (`python -m benchmarks.throughput.noop DATA_DIR NUM_SYSTEMS`), it serves until its
standard input is closed, and first prints where. For each line that it reads it prints how many
scheduling cycles there were, and how many seconds they took altogether.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from appliance.cluster.launcher import Exits, JobStopped, PodExit, Survivor
from appliance.core.clock import SystemClock
from appliance.core.ids import JobId, PodName, Role, pod_name
from appliance.core.pods.pod_spec import PodSpec
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.options.settings_by_group import ListenOptions, QueueOptions
from appliance.management.pod_side import PodSide
from appliance.management.pods.coordinators import Coordinators
from appliance.management.server import RestPlace, running_management
from appliance.management.store.own_process import run_event_loop
from appliance.observability import metrics
from appliance.observability.logging import configure_logging


class NoopLauncher:
    """Launches nothing and says that it did.

    Attributes:
        registered: Told that a coordinator listens, and where; set before the first job.
    """

    node = "nowhere"
    is_far = False

    def __init__(self) -> None:
        self.exits = Exits()
        self.registered: Callable[[JobId, str], object] = lambda *_: None

    def runtime_dir(self, job: JobId) -> Path:
        """Return a path at which there is nothing."""
        return Path("/nonexistent") / job

    def survivors(self) -> Mapping[JobId, Survivor]:
        """Nothing survives, as nothing runs."""
        return {}

    def launch(self, pods: Sequence[PodSpec], request: bytes = b"") -> Mapping[PodName, int]:
        """Say that the pods run, and that the coordinator listens or the script has ended."""
        first = pods[0]
        if first.role is Role.DRIVER:
            self._ended(first.job, Role.DRIVER)
        else:
            self.registered(first.job, "localhost:1")
        return {spec.name: 1 for spec in pods}

    def end_coordinator(self, job: JobId) -> None:
        """Let the coordinator end in order."""
        self._ended(job, Role.COORDINATOR)

    def stop(self, job: JobId) -> None:
        """Say that nothing runs any more."""
        self.exits.put(JobStopped(job=job))

    def forget(self, job: JobId) -> None:
        """There is nothing to forget."""

    def abandon(self) -> None:
        """There is nothing to leave to the next management."""

    def close(self) -> None:
        """There is nothing to end."""

    def _ended(self, job: JobId, role: Role) -> None:
        self.exits.put(PodExit(job=job, pod=pod_name(job, role, 0), role=role, exit_code=0))


class NoopCoordinators(Coordinators):
    """Coordinators that end when they are told."""

    def __init__(self, launcher: NoopLauncher) -> None:
        super().__init__()
        self._launcher = launcher

    def tell_end(
        self,
        job: JobId,
        runtime_dir: Path,
        *,
        reason: str,
        is_failure: bool,
        pod: str,
        is_preemption: bool,
    ) -> None:
        """Let a job's coordinator end."""
        self._launcher.end_coordinator(job)


async def serve(data_dir: Path, num_systems: int) -> None:
    """Serve until standard input is closed."""
    configure_logging(as_json=False, stream=sys.stderr)  # as `appliance up` does
    options = ManagementOptions(
        data_dir=data_dir,
        runtime_root=data_dir / "r",
        num_systems=num_systems,
        listen=ListenOptions(port=0),
        queue=QueueOptions(lease_seconds=86_400),
    )
    rest = RestPlace(url="http://localhost:1")
    launcher = NoopLauncher()
    pods = PodSide(launcher=launcher, coordinators=NoopCoordinators(launcher))
    async with running_management(
        options, SystemClock(), rest, open_pods=lambda *_: pods
    ) as management:
        launcher.registered = management.services.jobs.coordinator_registered
        print(management.address, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(*_cycles(), flush=True)


def _cycles() -> tuple[int, float]:
    (metric,) = metrics.CYCLE_SECONDS.collect()
    values = {sample.name: sample.value for sample in metric.samples if not sample.labels}
    return int(values[f"{metric.name}_count"]), values[f"{metric.name}_sum"]


if __name__ == "__main__":
    run_event_loop(serve(Path(sys.argv[1]), int(sys.argv[2])))
