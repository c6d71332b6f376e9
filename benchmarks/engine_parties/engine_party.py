"""Ours: the pods of a job as real processes, with coordinator and input pods played in this one.

The program is the real client's. What is left out against a whole job: management, coordinator and
the client's own processes, none of which does anything between two outputs; and the input pods,
whose batches are ready in memory here as they are for every other party.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from numpy.typing import NDArray

from appliance.coordinator.run.kernel_selection import KernelTable
from appliance.core.cluster.run import RunSchedule
from appliance.core.cluster.swarmx_tree import MAX_FAN_OUT
from appliance.core.errors import StreamClosedError
from appliance.core.plans.plan import Plan
from appliance.streams import stream_topology as topology
from appliance.streams.ring_reader import SharedMemoryRingReader
from appliance.streams.shared_memory import connect_ring
from appliance.streams.slot_layout import SlotLayout
from benchmarks.engine_parties.party import memory_needed, with_children
from benchmarks.engine_parties.until_parent_ends import ending_with_this_process
from benchmarks.programs.models import Shape
from tests.support import kept_machine_code
from tests.support.engine import Engine
from tests.support.forked import is_shared
from tests.support.pod_processes import Job

_MAX_STEPS = 1_000_000
_SECONDS = 600.0

Batch = Mapping[str, NDArray[Any]]


class Gate:
    """Batches without end, handed out one by one as steps are allowed.

    Args:
        batches: Taken in turn.
    """

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches
        self._allowed = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def allow(self, num_steps: int) -> None:
        """Let every iterator go on for so many batches."""
        with self._changed:
            self._allowed += num_steps
            self._changed.notify_all()

    def close(self) -> None:
        """End every iterator."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Batch]:
        number = 0
        while self._wait_for(number):
            yield self._batches[number % len(self._batches)]
            number += 1

    def _wait_for(self, number: int) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._allowed > number)
            return not self._is_closed


class BenchmarkJob(Job):
    """A job whose pods end when this process does, be it killed."""

    def interpreter(self, prefix: Sequence[str]) -> Sequence[str] | None:
        """Return a command that starts an interpreter for a pod; None in a run of the tests."""
        if is_shared() and not prefix:
            return None  # it is forked from one that has its imports
        return ending_with_this_process([*prefix, sys.executable])


class ResidentEngine(Engine):
    """The pods; counts the steps whose outputs have come."""

    def __init__(self, job: Job, num_systems: int, options: Mapping[str, str]) -> None:
        super().__init__(job, num_systems, MAX_FAN_OUT, options)
        self.num_done = 0
        self.loss = float("nan")
        self.changed = threading.Condition()
        self._output_ring: SharedMemoryRingReader | None = None

    def take_outputs(self, plan: Plan, session: int = 1) -> None:
        """Begin to read the outputs."""
        self._output_ring = connect_ring(
            self.address(session, topology.OUTPUTS), name=topology.OUTPUTS, timeout_seconds=_SECONDS
        )
        arguments = (self._output_ring, topology.output_layout(plan))
        threading.Thread(target=self._count, args=arguments, daemon=True).start()

    def wait_for(self, num_steps: int) -> float:
        """Wait until so many steps are done; return the last one's loss."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.num_done >= num_steps, timeout=_SECONDS):
                raise TimeoutError(f"{self.num_done} of {num_steps} steps in {_SECONDS} s")
            return self.loss

    def close(self) -> None:
        """Stop feeding and reading."""
        self.stop_feeding()
        if self._output_ring is not None:
            self._output_ring.close()

    def _count(self, ring: SharedMemoryRingReader, layout: SlotLayout) -> None:
        with contextlib.suppress(StreamClosedError):
            while (slot := ring.acquire()) is not None:
                views = layout.views(slot)
                step, loss = int(views[topology.STEP_FIELD]), float(views["output_loss"])
                ring.release()
                with self.changed:
                    self.num_done, self.loss = step + 1, loss
                    self.changed.notify_all()


class EngineParty:
    """Our engine with a number of systems.

    Attributes:
        needed_bytes: Memory that its pods take, estimated.
        plan: What is loaded when it starts.
        hosts: Host of each pod by member name.
        kernels: What was measured of kernels; None has them chosen by rule.

    Args:
        name: In tables.
        shape: What is trained.
        plan: The compiled program.
        state: Initial state by resource name.
        batches: Batches by value name, taken in turn.
        num_systems: CS-2 systems.
        threads: Threads of each.
        directory: Where sockets and logs go; its path must be short.
        options: Further options of the pods.
        hosts: Host of each pod by member name; pods on different hosts meet over TCP on loopback.
        kernels: What was measured of kernels; None has them chosen by rule.
    """

    def __init__(
        self,
        name: str,
        *,
        shape: Shape,
        plan: Plan,
        state: Mapping[str, NDArray[Any]],
        batches: Sequence[Batch],
        num_systems: int,
        threads: int,
        directory: Path,
        options: Mapping[str, str] | None = None,
        hosts: Mapping[str, str] | None = None,
        kernels: KernelTable | None = None,
    ) -> None:
        self.name, self.kernels = name, kernels
        self.hosts = hosts or {}
        self.plan, self._state, self._gate = plan, state, Gate(batches)
        self._num_systems, self.directory = num_systems, directory
        # Beside the systems MemoryX and SwarmX; the state is there once.
        self.needed_bytes = memory_needed(shape, num_processes=num_systems + 2, num_replicas=1)
        self._options = {"threads": str(threads), **(options or {})}
        if is_shared():
            self._options["machine_code"] = str(kept_machine_code.directory())
        self._job: Job | None = None
        self._engine: ResidentEngine | None = None
        self._num_allowed = 0

    def start(self) -> None:
        """Start the pods, load the plan, write the initial state, open the streams."""
        self.directory.mkdir()
        self._job = self.make_job()
        self._job.coordinator.heartbeat_seconds = 1.0
        engine = self._engine = ResidentEngine(self._job, self._num_systems, self._options)
        engine.load(self.plan)
        if self.kernels is not None:
            engine.choose_kernels(self.kernels)
        assert engine.ingest(self.plan, self._state) == 0
        engine.feed(self.plan, self._gate)
        schedule = RunSchedule(
            num_steps=_MAX_STEPS, output_interval=1, checkpoint_steps=frozenset()
        )
        engine.start(self.plan, schedule)

    def make_job(self) -> Job:
        """Return the pod_context of the pods."""
        return BenchmarkJob(self.directory, self.hosts)

    def run(self, num_steps: int) -> float:
        """Let the batches of so many steps in; return the last one's loss."""
        assert self._engine is not None
        self._num_allowed += num_steps
        self._gate.allow(num_steps)
        return self._engine.wait_for(self._num_allowed)

    def processes(self) -> list[psutil.Process]:
        """Return the pods' processes."""
        assert self._job is not None
        return [
            process
            for pod in self._job.processes
            for process in with_children(psutil.Process(pod.process.pid))
        ]

    def readings(self) -> dict[str, dict[str, float]]:
        """Return every pod's readings."""
        assert self._engine is not None
        return {pod.spec.name: self._engine.readings(pod) for pod in self._engine.pods}

    def close(self) -> None:
        """End the pods."""
        self._gate.close()
        if self._engine is not None:
            self._engine.close()
        if self._job is not None:
            self._job.close()
