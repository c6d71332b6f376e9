"""Computes deferred initial values with the client's own weight program.

A user's initialisation may arrive as a TorchScript graph, or with pickled functions to apply:
that is user code, so it runs in the user's environment in a process of its own. It is started when
the first such tensor may come and ended when the steps begin.
"""

import itertools
import logging
import threading

import numpy as np
from google.protobuf import json_format
from numpy.typing import NDArray

from appliance.core.errors import UserError
from appliance.core.ir.tensors import TensorType
from appliance.core.pods.pod_spec import PodSpec
from appliance.pods.shared_blocks import SharedBlock
from appliance.user_code.client_programs import UserEnvironment, UserProgram
from appliance.wire.requests.cluster_details import GangSize, TaskType, cluster_details
from protos.appliance import appliance_service_pb2 as client
from protos.appliance.common_config_pb2 import DebugArgs, SendToEveryTask
from protos.appliance.ws_common_pb2 import StatusCode
from protos.cluster.cluster_pb2 import ExecuteJobRequest

logger = logging.getLogger(__name__)

_MODULE = "cerebras.pytorch.utils._app.cs_weight_app"
_COMPUTE_SECONDS = 600.0

DeferredTensor = client.SendDeferredInputRequest.Tensor


def is_expected(request: ExecuteJobRequest) -> bool:
    """Whether the client means to send deferred values that need the program."""
    strategy = request.debug_args.debug_mgr.weight_sidecar.strategy
    return strategy == DebugArgs.DebugMGR.UserSidecar.STRATEGY_ENABLED


class Initializer:
    """Runs the weight program on demand.

    Args:
        spec: The coordinator pod.
        request: What the client asked of management.
        gang: Size of the job.
        environment: Where the user's code runs.
    """

    def __init__(
        self,
        spec: PodSpec,
        request: ExecuteJobRequest,
        gang: GangSize,
        environment: UserEnvironment,
    ) -> None:
        self._spec, self._request, self._gang = spec, request, gang
        self._environment = environment
        self._ids = itertools.count()
        self._lock = threading.Lock()
        self._program: UserProgram | None = None
        self._is_ready = False

    def warm_up(self) -> None:
        """Start the program, without waiting for it."""
        with self._lock:
            self._started()

    def compute(self, name: str, tensor: DeferredTensor, wire: TensorType) -> NDArray[np.generic]:
        """Return a deferred tensor's values in the wire's encoding.

        Args:
            name: The tensor.
            tensor: What the client sent.
            wire: Shape and wire element type that the program needs.

        Raises:
            UserError: The user's code failed; the message ends with its traceback.
            PodFailedError: The program is gone or does not answer.
        """
        with self._lock:
            program = self._started()
            if not self._is_ready:
                program.wait_until_ready()
                program.call("UnaryInit", client.InitRequest(), client.InitResponse)
                self._is_ready = True
            number = next(self._ids)
            request = client.SendDeferredInputRequest()
            request.tensors.add().CopyFrom(tensor)
            request.tensors[0].tensor_id = number
            program.call("UnarySendDeferredInput", request, client.SendDeferredInputResponse)
            return self._fetch(program, name, number, wire)

    def close(self) -> None:
        """End the program and remove its working directory."""
        with self._lock:
            program, self._program = self._program, None
        if program is not None:
            program.stop()

    def _fetch(
        self, program: UserProgram, name: str, number: int, wire: TensorType
    ) -> NDArray[np.generic]:
        block = SharedBlock(f"wsc-{self._spec.job}-initial-{number}", wire)
        try:
            program.give_to_user(block)
            request = client.GetOutputRequest(tensor_id=number, shm_name=block.name)
            reply = program.call(
                "UnaryGetOutput",
                request,
                client.GetOutputResponse,
                timeout_seconds=_COMPUTE_SECONDS,
            )
        finally:
            block.unlink()
        if reply.code != StatusCode.WS_RT_SUCCESS:
            raise UserError(
                f"The initial value of {name!r} could not be computed: {reply.message}",
                hint=f"The whole traceback is in logs/initializer.log of job {self._spec.job}.",
            )
        return block.values

    def _started(self) -> UserProgram:
        if self._program is None:
            log_path = self._spec.work_dir / "logs" / "initializer.log"
            log_path.parent.mkdir(parents=True, exist_ok=True)
            self._is_ready = False
            self._program = UserProgram(
                self._spec.job,
                "The program that computes initial weights",
                self._environment,
                module=_MODULE,
                details=self._details,
                directory=self._spec.runtime_dir / "initializer",
                log_path=log_path,
            )
        return self._program

    def _details(self, address: str) -> str:
        details = cluster_details(self._gang)
        for task in details.tasks:
            if task.task_type == TaskType.WGT:
                task.task_map[0].address_book.user_sidecar_address = address
        return json_format.MessageToJson(
            SendToEveryTask(
                cluster_details=details,
                debug_args=self._request.debug_args,
                role="WGT",
                id=0,
            ),
            preserving_proto_field_name=True,
        )
