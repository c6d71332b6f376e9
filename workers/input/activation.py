"""Role `activation`: feeds one CS-2 from its workers in turn, batch by batch."""

import logging
from contextlib import ExitStack

import grpc
import numpy as np

from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import StreamClosedError
from appliance.pods.pod_sessions import Loops
from appliance.pods.role_context import PodContext
from appliance.streams.ring_reader import SharedMemoryRingReader
from protos.wsc.v1 import pods_pb2
from workers.input.role import NUM_SLOTS
from workers.input.shares import InputPlan, input_plan

logger = logging.getLogger(__name__)


class BatchSession:
    """One session of an activation pod.

    Args:
        context: The pod; its index is the system's.
        number: The session's number.
        plan: What the input pods deliver.
    """

    def __init__(self, context: PodContext, number: int, plan: InputPlan) -> None:
        self._context, self._number, self._plan = context, number, plan
        self._open = ExitStack()
        self._readers: list[SharedMemoryRingReader] = []
        self._ring = self._open.enter_context(
            context.serve_ring(
                number,
                f"batches-{context.spec.index}",
                num_slots=NUM_SLOTS,
                slot_bytes=plan.layout(context.spec.index).num_bytes,
            )
        )

    def start(self, schedule: RunSchedule) -> Loops:
        """Connect to the system's workers and return the loop that passes batches on."""
        num_workers = self._plan.workers_per_system
        first = self._context.spec.index * num_workers
        for worker in range(first, first + num_workers):
            reader = self._context.connect_ring(self._number, f"samples-{worker}")
            self._readers.append(self._open.enter_context(reader))
        return {"batches": lambda: self._pass_on(schedule.num_steps)}

    def close(self) -> None:
        """Free the rings."""
        self._open.close()

    def _pass_on(self, num_steps: int) -> None:
        clock, progress = self._context.clock, self._context.progress
        starved_seconds = 0.0
        for step in range(num_steps):
            slot = self._ring.reserve()
            before = clock.monotonic_seconds()
            reader = self._readers[self._plan.local_rank(step)]
            samples = reader.acquire()
            if samples is None:
                raise StreamClosedError(
                    f"{self._context.spec.name} has no batch for step {step + 1} of {num_steps}: "
                    f"input worker {self._plan.local_rank(step)} of its system ended early."
                )
            starved_seconds += clock.monotonic_seconds() - before
            np.copyto(slot, samples)
            reader.release()
            self._ring.publish()
            readings = {"wsc_input_starved_seconds_total": starved_seconds}
            progress.record(step=step + 1, readings=readings)
        self._ring.end()


class ActivationRole:
    """The role of an `activation` pod."""

    def __init__(self, context: PodContext) -> None:
        self._context = context

    def load(self, request: pods_pb2.LoadRequest) -> BatchSession:
        """Serve the ring of the system's batches."""
        return BatchSession(self._context, request.session, input_plan(request))

    def add_services(self, server: grpc.Server) -> None:
        """Add nothing."""

    def close(self) -> None:
        """Free nothing: sessions hold everything."""
