"""The client's own streamer program, driven for one input worker.

It runs the user's dataloader. One process serves all sessions of the worker, because it keeps
dataloaders alive from one to the next; it is replaced only when a session was given up while a
batch was being fetched, since it cannot be told to stop fetching.
"""

import json
import logging
import threading
from collections.abc import Callable

from google.protobuf import json_format

from appliance.core.pods.pod_spec import PodSpec
from appliance.pods.shared_blocks import SharedBlock, create_blocks
from appliance.user_code.client_programs import UserEnvironment, UserProgram
from appliance.wire import rtfx
from appliance.wire.requests.cluster_details import GangSize, TaskType, cluster_details
from protos.appliance import appliance_service_pb2 as client
from protos.appliance.common_config_pb2 import SendToEveryTask
from protos.cluster.cluster_pb2 import ExecuteJobRequest
from workers.input.shares import InputPlan

logger = logging.getLogger(__name__)

_MODULE = "cerebras.pytorch.utils.data.streamer.cs_streamer_app"
_POLL_SECONDS = 0.05


class Streamer:
    """One streamer process after the other, for one worker pod.

    Args:
        spec: The worker pod; its index is the worker's rank in the whole job.
        request: What the client asked of management.
        gang: Size of the job.
        environment: Where the user's code runs.
        on_exit: Called with an exit code when the process ends by itself.
    """

    def __init__(
        self,
        spec: PodSpec,
        request: ExecuteJobRequest,
        gang: GangSize,
        environment: UserEnvironment,
        *,
        on_exit: Callable[[int], None],
    ) -> None:
        self._spec, self._request, self._gang = spec, request, gang
        self._environment, self._on_exit = environment, on_exit
        self._must_restart = False
        self._program = self._launch()

    @property
    def name(self) -> str:
        """The worker's name for messages."""
        return f"Input worker {self._spec.index}"

    def load(self, session: int, plan: InputPlan, run: client.RunRequest) -> list[SharedBlock]:
        """Give the streamer its tensors and the user's dataloader.

        Args:
            session: Number of the session.
            plan: What is to be delivered.
            run: The client's run request, passed on as it is.

        Returns:
            The blocks that `fetch` fills, in the order of the plan's tensors.

        Raises:
            UserError: The user's code failed; the message ends with the traceback.
            PodFailedError: The streamer is gone.
        """
        if self._must_restart:
            self._program.stop()
            self._program, self._must_restart = self._launch(), False
        self._program.wait_until_ready()
        system = self._spec.index // self._gang.workers_per_system
        prefix = f"wsc-{self._spec.job}-{session}-{self._spec.index}"
        blocks = create_blocks(prefix, plan.wire_types(system))
        try:
            for block in blocks:
                self._program.give_to_user(block)
            content = json.dumps(_tensor_list(plan, blocks)).encode()
            load = client.LoadRequest(rtir=client.LoadRequest.FileContent(content=content))
            self._program.call("UnaryLoad", load, client.LoadResponse)
            self._program.call("UnaryRun", run, client.RunResponse)
        finally:
            for block in blocks:
                block.unlink()
        return blocks

    def start(self, abandoned: threading.Event) -> None:
        """Wait until the first batch is there; raises as `load` does."""
        request = client.StartStreamingRequest()
        self._call("UnaryStartStreaming", request, client.StartStreamingResponse, abandoned)

    def fetch(self, abandoned: threading.Event) -> None:
        """Have the next batch written into the blocks; raises as `load` does."""
        request = client.GetOutputRequest()
        self._call("UnaryGetOutput", request, client.GetOutputResponse, abandoned)

    def checkpoint(self, step: int, abandoned: threading.Event) -> list[str]:
        """Return the dataloader's state after a step (1-based), once the worker has got there.

        Raises:
            UserError: The step is no checkpoint step, or the loader has no state.
        """
        request = client.DataCheckpointRequest(iteration=step)
        while not abandoned.is_set():
            reply = self._program.call(
                "UnaryDataCheckpoint", request, client.DataCheckpointResponse, abandoned=abandoned
            )
            states = list(reply.state_dict_serialized)
            if all(states):
                return states
            abandoned.wait(_POLL_SECONDS)
        return []

    def close(self) -> None:
        """End the process and remove its working directory."""
        self._program.stop()

    def _call(
        self,
        method: str,
        request: client.GetOutputRequest | client.StartStreamingRequest,
        reply_type: type[client.GetOutputResponse] | type[client.StartStreamingResponse],
        abandoned: threading.Event,
    ) -> None:
        try:
            self._program.call(method, request, reply_type, abandoned=abandoned)
        finally:
            self._must_restart = self._must_restart or abandoned.is_set()

    def _launch(self) -> UserProgram:
        spec = self._spec
        log_path = spec.work_dir / "logs" / f"streamer-{spec.index}.log"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        return UserProgram(
            spec.job,
            self.name,
            self._environment,
            module=_MODULE,
            details=self._details,
            directory=spec.runtime_dir / f"streamer-{spec.index}",
            log_path=log_path,
            on_exit=self._on_exit,
        )

    def _details(self, address: str) -> str:
        """Return the file from which the streamer learns its place in the job."""
        details = cluster_details(self._gang)
        for task in details.tasks:
            if task.task_type == TaskType.WRK:
                task.task_map[self._spec.index].address_book.task_debug_address = address
        return json_format.MessageToJson(
            SendToEveryTask(
                cluster_details=details,
                debug_args=self._request.debug_args,
                role="WRK",
                id=self._spec.index,
            ),
            preserving_proto_field_name=True,
        )


def _tensor_list(plan: InputPlan, blocks: list[SharedBlock]) -> dict[str, object]:
    """Return what the streamer's load request says, as its JSON has it."""
    tensors = [
        {
            "source": tensor.name,
            "dtype": rtfx.element_type_name(tensor.wire_dtype),
            "shape": list(block.values.shape),
            "tensor_id": position,
            "shm_name": block.name,
        }
        for position, (tensor, block) in enumerate(zip(plan.tensors, blocks, strict=True))
    ]
    return {"subbatch_sizes": [[shard.size] for shard in plan.shards], "tensors": tensors}
