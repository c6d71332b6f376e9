"""Role `worker`: keeps one streamer running and writes its batches into the slots of a ring."""

import logging
import threading
from collections.abc import Mapping

import grpc

from appliance.core.cluster.readings import BATCH_LOADING
from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import ConflictError, UserError
from appliance.pods.pod_sessions import Loops
from appliance.pods.role_context import Failure, PodContext
from appliance.pods.shared_blocks import SharedBlock
from appliance.pods.user_variables import user_variables
from appliance.streams.ring_writer import SharedMemoryRingWriter
from appliance.user_code.client_programs import user_environment
from appliance.wire import rtfx
from appliance.wire.requests.cluster_details import GangSize
from protos.appliance.appliance_service_pb2 import RunRequest
from protos.cluster.cluster_pb2 import ExecuteJobRequest
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc
from workers.input.options import WorkerOptions
from workers.input.shares import InputPlan, input_plan
from workers.input.streamer import Streamer

logger = logging.getLogger(__name__)

NUM_SLOTS = 3
"""Batches that are ready ahead of the one in use."""


class SampleSession:
    """One session of a worker: the batches that it contributes.

    Args:
        number: The session's number.
        plan: What the input pods deliver.
        gang: Size of the job.
        streamer: Delivers the batches.
        blocks: Where it puts them.
    """

    def __init__(
        self,
        context: PodContext,
        number: int,
        *,
        plan: InputPlan,
        gang: GangSize,
        streamer: Streamer,
        blocks: list[SharedBlock],
    ) -> None:
        self._context, self._plan, self._gang = context, plan, gang
        self._streamer, self._blocks = streamer, blocks
        self._system, self._local_rank = divmod(context.spec.index, gang.workers_per_system)
        self._layout = plan.layout(self._system)
        self.abandoned = threading.Event()
        self._ring: SharedMemoryRingWriter = context.serve_ring(
            number,
            f"samples-{context.spec.index}",
            num_slots=NUM_SLOTS,
            slot_bytes=self._layout.num_bytes,
        )

    def start(self, schedule: RunSchedule) -> Loops:
        """Return the loop that fetches the session's batches."""
        num_batches = self._plan.num_batches(self._local_rank, schedule.num_steps)
        return {"samples": lambda: self._deliver(num_batches)}

    def close(self) -> None:
        """Free the ring; a batch that is being fetched is given up."""
        self.abandoned.set()
        self._ring.close()

    def _deliver(self, num_batches: int) -> None:
        clock, progress = self._context.clock, self._context.progress
        loading_seconds = waiting_seconds = 0.0
        self._streamer.start(self.abandoned)
        for batch in range(num_batches):
            before = clock.monotonic_seconds()
            self._streamer.fetch(self.abandoned)
            fetched = clock.monotonic_seconds()
            slot = self._ring.reserve()
            waiting_seconds += clock.monotonic_seconds() - fetched
            loading_seconds += fetched - before
            for tensor, block, item in zip(
                self._plan.tensors, self._blocks, self._layout.items, strict=True
            ):
                rtfx.decode(block.values, tensor.wire_dtype, item.view(slot))
            self._ring.publish()
            progress.record(step=batch + 1, readings=_readings(loading_seconds, waiting_seconds))
        self._ring.end()


def _readings(loading_seconds: float, waiting_seconds: float) -> Mapping[str, float]:
    return {
        BATCH_LOADING: loading_seconds,
        "wsc_input_idle_seconds_total": waiting_seconds,
    }


class WorkerRole:
    """The role of a `worker` pod."""

    def __init__(self, context: PodContext) -> None:
        self._context = context
        options = WorkerOptions.of(context.spec)
        self._gang = options.gang
        request = ExecuteJobRequest.FromString(options.request_path.read_bytes())
        variables = user_variables(context.spec.options)
        environment = user_environment(
            request, uid=options.uid, gid=options.gid, variables=variables
        )
        self._streamer = Streamer(
            context.spec, request, self._gang, environment, on_exit=self._report_exit
        )
        self._session: SampleSession | None = None

    def load(self, request: pods_pb2.LoadRequest) -> SampleSession:
        """Hand the dataloader to the streamer and serve the ring of samples."""
        plan = input_plan(request)
        run = RunRequest.FromString(request.run_request)
        blocks = self._streamer.load(request.session, plan, run)
        self._session = SampleSession(
            self._context,
            request.session,
            plan=plan,
            gang=self._gang,
            streamer=self._streamer,
            blocks=blocks,
        )
        return self._session

    def add_services(self, server: grpc.Server) -> None:
        """Serve `wsc.v1.InputWorker` as well."""
        pods_pb2_grpc.add_InputWorkerServicer_to_server(CheckpointServicer(self), server)

    def close(self) -> None:
        """End the streamer."""
        if self._session is not None:
            self._session.abandoned.set()
        self._streamer.close()

    def checkpoint(self, step: int) -> list[str]:
        """Return the dataloader's state after a step."""
        if self._session is None:
            raise ConflictError(f"{self._context.spec.name} has no session to take a state from.")
        return self._streamer.checkpoint(step, self._session.abandoned)

    def _report_exit(self, code: int) -> None:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        message = (
            f"The streamer of input worker {self._context.spec.index} ended with {how}; it runs "
            f"the job's dataloader. Its log is logs/streamer-{self._context.spec.index}.log."
        )
        self._context.report_failure(Failure(message=message, detail="", is_user_error=False))


class CheckpointServicer(pods_pb2_grpc.InputWorkerServicer):
    """Serves `wsc.v1.InputWorker`."""

    def __init__(self, role: WorkerRole) -> None:
        self._role = role

    def DataCheckpoint(
        self, request: pods_pb2.DataCheckpointRequest, context: grpc.ServicerContext
    ) -> pods_pb2.DataCheckpointReply:
        """Return the dataloader's state after a step (1-based)."""
        states = self._role.checkpoint(request.step)
        if not states:
            raise UserError(f"The state of the dataloader after step {request.step} is not there.")
        return pods_pb2.DataCheckpointReply(serialized_states=states)
