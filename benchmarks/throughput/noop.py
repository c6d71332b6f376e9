"""An appliance whose jobs are no-ops: everything is real but the processes of pods.

The launcher starts nothing. It says that the pods run, registers the coordinator as the coordinator
would, and lets it end when it is told to. So each job goes through all its phases, in SQL, with its
events, its pods, its lease and its grant.

Run as a program (`python -m benchmarks.throughput.noop DATA_DIR NUM_SYSTEMS`), it serves until its
standard input is closed, and first prints where.
"""

import asyncio
import queue
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.cluster.launcher import Exit, JobStopped, PodExit, Survivor
from appliance.core.clock import SystemClock
from appliance.core.ids import JobId, PodName, Role, pod_name
from appliance.core.pods import PodSpec
from appliance.management.coordinators import Coordinators
from appliance.management.server import Management, ManagementOptions


class NoopLauncher:
    """Launches nothing and says that it did.

    Args:
        management: Told that coordinators listen.
    """

    node = "nowhere"

    def __init__(self, management: Management) -> None:
        self.exits: queue.Queue[Exit] = queue.Queue()
        self._management = management

    def runtime_dir(self, job: JobId) -> Path:
        """Return a path at which there is nothing."""
        return Path("/nonexistent") / job

    def survivors(self) -> Mapping[JobId, Survivor]:
        """Nothing survives, as nothing runs."""
        return {}

    def launch(self, pods: Sequence[PodSpec]) -> Mapping[PodName, int]:
        """Say that the pods run, and that the coordinator listens."""
        self._management.jobs.coordinator_registered(pods[0].job, "localhost:1")
        return {spec.name: 1 for spec in pods}

    def end_coordinator(self, job: JobId) -> None:
        """Let the coordinator end in order."""
        name = pod_name(job, Role.COORDINATOR, 0)
        self.exits.put(PodExit(job=job, pod=name, role=Role.COORDINATOR, exit_code=0))

    def stop(self, job: JobId) -> None:
        """Say that nothing runs any more."""
        self.exits.put(JobStopped(job=job))

    def forget(self, job: JobId) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """There is nothing to end."""


class NoopCoordinators(Coordinators):
    """Coordinators that end when they are told."""

    def __init__(self, launcher: NoopLauncher) -> None:
        super().__init__()
        self._launcher = launcher

    def tell_end(
        self, job: JobId, runtime_dir: Path, *, reason: str, is_failure: bool, pod: str
    ) -> None:
        """Let a job's coordinator end."""
        self._launcher.end_coordinator(job)


class NoopManagement(Management):
    """Management with a launcher that starts no process."""

    def _start_launcher(self) -> NoopLauncher:  # type: ignore[override]  # plays the real one
        launcher = NoopLauncher(self)
        self._coordinators = NoopCoordinators(launcher)
        return launcher


async def serve(data_dir: Path, num_systems: int) -> None:
    """Serve until standard input is closed."""
    options = ManagementOptions(
        data_dir=data_dir,
        runtime_root=data_dir / "r",
        port=0,
        num_systems=num_systems,
        lease_seconds=86_400,
    )
    management = NoopManagement(options, SystemClock())
    await management.start(dashboard_root="http://localhost:1")
    print(management.address, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await management.stop()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
