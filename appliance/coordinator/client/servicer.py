"""The client's `cerebras.Appliance` service: each method delegates to the part that implements it.

Errors are raised, never answered: `answers` translates them, and refuses the methods of the service
that no part implements.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import grpc

from appliance.coordinator.client.monitor import Monitor, MonitorWord
from appliance.coordinator.compile.compilation import Compilation
from appliance.coordinator.console import Console
from appliance.coordinator.failure import Failure
from appliance.coordinator.options import CoordinatorOptions
from appliance.coordinator.run.execution import Execution
from appliance.coordinator.run.simulated.profiles import profiled_steps
from appliance.core.errors import ConflictError, UserError
from appliance.core.ids import Role
from appliance.wire.joined_servicer import joined
from appliance.wire.requests.cluster_details import TaskType, gang_size
from appliance.wire.tensor_chunks import TensorChunk
from protos.appliance import appliance_service_pb2 as pb
from protos.appliance import appliance_service_pb2_grpc, ws_common_pb2
from protos.appliance.ws_common_pb2 import StatusCode

_MAX_POLL_SECONDS = 5.0
"""Longest poll for console lines; the client asks again at once."""

_TASK_TYPES = {
    Role.COORDINATOR: TaskType.CRD,
    Role.WEIGHT: TaskType.WGT,
    Role.BROADCASTREDUCE: TaskType.BR,
    Role.CHIEF: TaskType.CHF,
    Role.ACTIVATION: TaskType.ACT,
    Role.WORKER: TaskType.WRK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """What the servicer hands over to.

    Attributes:
        options: What this coordinator was told.
        console: Lines for the user.
        compilation: Compiles programs.
        execution: The sessions of an execute job; None in a compile job.
        monitor: Says when the client's error monitor is told of a failure.
        on_done: Called when the client needs this job's service no more.
    """

    options: CoordinatorOptions
    console: Console
    compilation: Compilation
    execution: Execution | None
    monitor: Monitor
    on_done: Callable[[], None]


class CommonMethods:
    """Methods for both kinds of job.

    Args:
        handlers: What to hand over to.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def UnaryClockSync(
        self, request: ws_common_pb2.ClockSyncRequest, context: grpc.ServicerContext
    ) -> ws_common_pb2.ClockSyncResponse:
        """Answer at once: the channel works."""
        return ws_common_pb2.ClockSyncResponse()

    def UnaryPing(
        self, request: ws_common_pb2.PingRequest, context: grpc.ServicerContext
    ) -> ws_common_pb2.PingResponse:
        """Answer at once: the job lives."""
        return ws_common_pb2.PingResponse()

    def UnaryRuntimeInitialized(
        self, request: ws_common_pb2.PingRequest, context: grpc.ServicerContext
    ) -> ws_common_pb2.PingResponse:
        """Answer at once: there is nothing to initialise."""
        return ws_common_pb2.PingResponse()

    def UnaryHeartBeat(
        self, request: pb.HeartBeatRequest, context: grpc.ServicerContext
    ) -> pb.HeartBeatResponse:
        """Answer at once; management renews the client's lease."""
        return pb.HeartBeatResponse()

    def UnaryStart(
        self, request: pb.StartRequest, context: grpc.ServicerContext
    ) -> pb.StartResponse:
        """Tell the build that the client compares with its own."""
        options = self._handlers.options
        return pb.StartResponse(
            version_info=pb.StartResponse.VersionDetails(
                version=options.client_version, githash=options.client_githash
            )
        )

    def UnaryMsgQueue(
        self, request: pb.MsgQueueRequest, context: grpc.ServicerContext
    ) -> pb.MsgQueueResponse:
        """Return the next line for the user's console, or nothing."""
        seconds = min(float(request.timeout_seconds), _MAX_POLL_SECONDS)
        line = self._handlers.console.next_line(request.topic, seconds, context.is_active)
        return pb.MsgQueueResponse(status=line)

    def UnaryDone(self, request: pb.DoneRequest, context: grpc.ServicerContext) -> pb.DoneResponse:
        """End the job's service."""
        self._handlers.monitor.leave()
        self._handlers.on_done()
        return pb.DoneResponse()

    def UnaryCompile(
        self, request: pb.CompileRequest, context: grpc.ServicerContext
    ) -> pb.CompileResponse:
        """Compile a program; blocks until it is done."""
        return self._handlers.compilation.answer(request)


class StartMethods:
    """Methods for an execute job before its steps run.

    Args:
        handlers: What to hand over to.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    @property
    def _execution(self) -> Execution:
        if self._handlers.execution is None:
            raise ConflictError("This is a compile job; it does not run programs.")
        return self._handlers.execution

    def UnaryInit(self, request: pb.InitRequest, context: grpc.ServicerContext) -> pb.InitResponse:
        """Refuse what needs object storage; otherwise there is nothing to do."""
        if request.inference:
            raise UserError("Inference jobs are not served by this appliance.")
        return pb.InitResponse()

    def UnaryCheckCompileCompatibility(
        self, request: pb.CheckCompileCompatibilityRequest, context: grpc.ServicerContext
    ) -> pb.CheckCompileCompatibilityResponse:
        """Say whether a new program can run in this job's gang."""
        wanted, size = gang_size(request.compile_resp.cluster_details), self._execution.gang.size
        if size.may_run(wanted):
            return pb.CheckCompileCompatibilityResponse()
        return pb.CheckCompileCompatibilityResponse(
            code=StatusCode.WS_RT_JOB_INCOMPATIBLE,
            message=(
                f"The program is for {wanted.num_systems} systems with "
                f"{wanted.workers_per_system} input workers each; the job has {size.num_systems} "
                f"with {size.workers_per_system}."
            ),
        )

    def UnaryLoad(self, request: pb.LoadRequest, context: grpc.ServicerContext) -> pb.LoadResponse:
        """Begin a session with a compiled program."""
        if request.model_type not in (pb.LoadRequest.UNSET, pb.LoadRequest.TRAINING):
            raise UserError("Inference models are not served by this appliance.")
        self._execution.load(request.cache_compile_dir, profiled_steps=profiled_steps(request))
        return pb.LoadResponse()

    def UnaryRun(self, request: pb.RunRequest, context: grpc.ServicerContext) -> pb.RunResponse:
        """Take the number of steps and the dataloader."""
        self._execution.run(request)
        return pb.RunResponse()

    def UnarySendCheck(
        self, request: pb.SendCheckRequest, context: grpc.ServicerContext
    ) -> pb.SendCheckResponse:
        """List the state tensors; without group ids the client knows them by name."""
        names = [tensor.resource_name for tensor in self._execution.session.plan.state]
        response = pb.SendCheckResponse()
        match request.info_type:
            case pb.SendCheckRequest.GROUP:
                for name in names:
                    response.tensor_groups.add(tensor_names=[name], group_type="dense")
            case pb.SendCheckRequest.NAME:
                response.tensor_names.extend(names)
            case _:
                raise UserError("State tensors are known by name here; ask for NAME or GROUP.")
        return response

    def SendInputBidirStream(
        self, request_iterator: Iterator[TensorChunk], context: grpc.ServicerContext
    ) -> Iterator[pb.SendInputResponse]:
        """Take one tensor in chunks."""
        for _ in self._execution.ingest(request_iterator):
            yield pb.SendInputResponse()

    def StartWeightIngestion(
        self, request: pb.StartWeightIngestionRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.StartWeightIngestionResponse]:
        """Answer once at once, then once for each tensor that has arrived."""
        names = [pair.tensor_name for pair in request.tensor_id_shard_ids]
        arrivals = self._execution.arrivals(names)
        yield pb.StartWeightIngestionResponse()
        for _ in arrivals:
            yield pb.StartWeightIngestionResponse()

    def UnarySendDeferredInput(
        self, request: pb.SendDeferredInputRequest, context: grpc.ServicerContext
    ) -> pb.SendDeferredInputResponse:
        """Take tensors that arrive as recipes."""
        for tensor in request.tensors:
            self._execution.ingest_deferred(tensor)
        return pb.SendDeferredInputResponse()

    def UnaryCarryOverFromPTR(
        self, request: pb.CarryOverFromPTRRequest, context: grpc.ServicerContext
    ) -> pb.CarryOverFromPTRResponse:
        """Give a state tensor the value that an earlier session left."""
        self._execution.carry_over(request.tensor_name, request.ptid, keep=request.keep_in_repo)
        return pb.CarryOverFromPTRResponse()

    def UnaryGetCMDStateIds(
        self, request: pb.GetCMDStateIdsRequest, context: grpc.ServicerContext
    ) -> pb.GetCMDStateIdsResponse:
        """Return nothing: there is no command server that would have state."""
        return pb.GetCMDStateIdsResponse()

    def UnarySync(self, request: pb.SyncRequest, context: grpc.ServicerContext) -> pb.SyncResponse:
        """Answer at once: every call before this one has been carried out when it was answered."""
        return pb.SyncResponse()

    def UnaryStartStreaming(
        self, request: pb.StartStreamingRequest, context: grpc.ServicerContext
    ) -> pb.StartStreamingResponse:
        """Begin the steps."""
        self._execution.start_streaming()
        return pb.StartStreamingResponse()


class RunMethods:
    """Methods for an execute job while its steps run, and after.

    Args:
        handlers: What to hand over to.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    @property
    def _execution(self) -> Execution:
        if self._handlers.execution is None:
            raise ConflictError("This is a compile job; it does not run programs.")
        return self._handlers.execution

    def GetOutputStream(
        self, request: pb.GetOutputRequest, context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        """Return an output of a step, or a state tensor after a checkpoint step."""
        if request.WhichOneof("info_type") != "tensor_name":
            raise UserError("Outputs are known by name here, not by number.")
        yield from self._execution.fetch(request.iteration, request.tensor_name)

    def UnaryDataCheckpoint(
        self, request: pb.DataCheckpointRequest, context: grpc.ServicerContext
    ) -> pb.DataCheckpointResponse:
        """Return the dataloader's state of every input worker, in order of rank."""
        states = self._execution.checkpoint_dataloader(request.iteration)
        return pb.DataCheckpointResponse(state_dict_serialized=states)

    def UnaryMonitorError(
        self, request: pb.MonitorErrorRequest, context: grpc.ServicerContext
    ) -> pb.MonitorErrorResponse:
        """Say whether the job has failed, after a while."""
        word = self._handlers.monitor.poll(float(request.poll_seconds), context.is_active)
        if word is MonitorWord.OFF_SHIFT:
            return pb.MonitorErrorResponse(code=StatusCode.WS_RT_SUCCESS)
        failure = self._execution.failure
        if word is MonitorWord.CLEAN or failure is None:
            return pb.MonitorErrorResponse(code=StatusCode.WS_RT_MONITOR_CLEAN)
        return _monitor_error(failure)

    def UnaryMonitorCheck(
        self, request: pb.MonitorCheckRequest, context: grpc.ServicerContext
    ) -> pb.MonitorCheckResponse:
        """Answer that failures are watched for."""
        return pb.MonitorCheckResponse(error_monitored=True)

    def UnaryNotifyStall(
        self, request: pb.NotifyStallRequest, context: grpc.ServicerContext
    ) -> pb.NotifyStallResponse:
        """Take note."""
        return pb.NotifyStallResponse()

    def UnaryMoveToPTR(
        self, request: pb.MoveToPTRRequest, context: grpc.ServicerContext
    ) -> pb.MoveToPTRResponse:
        """Keep a state tensor's value for a later session."""
        execution = self._execution
        execution.persistent.move(execution.session, request.tensor_name, request.ptid)
        return pb.MoveToPTRResponse()

    def GetFromPTRStream(
        self, request: pb.GetFromPTRRequest, context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        """Return a persistent tensor."""
        execution = self._execution
        yield from execution.persistent.fetch(
            execution.session, request.ptid, keep=request.keep_in_repo
        )

    def UnaryDeleteFromPTR(
        self, request: pb.DeleteFromPTRRequest, context: grpc.ServicerContext
    ) -> pb.DeleteFromPTRResponse:
        """Forget a persistent tensor."""
        self._execution.persistent.delete(self._execution.session, request.ptid)
        return pb.DeleteFromPTRResponse()

    def UnaryFinalize(
        self, request: pb.FinalizeRequest, context: grpc.ServicerContext
    ) -> pb.FinalizeResponse:
        """End the session; its tensors can still be moved and fetched."""
        self._handlers.monitor.release()
        is_success = request.state == pb.FinalizeRequest.FS_SUCCESS
        self._execution.finish(is_success=is_success)
        return pb.FinalizeResponse(trace_events=self._execution.profile())


def _monitor_error(failure: Failure) -> pb.MonitorErrorResponse:
    is_stall = failure.is_stall
    return pb.MonitorErrorResponse(
        code=StatusCode.WS_RT_STALL_DETECTED if is_stall else StatusCode.WS_RT_INTERNAL_ERROR,
        message=failure.text,
        host_index=failure.index,
        srv_type=_TASK_TYPES[failure.role],
    )


def appliance_servicer(handlers: Handlers) -> appliance_service_pb2_grpc.ApplianceServicer:
    """Return the servicer of one job's client."""
    return joined(
        appliance_service_pb2_grpc.ApplianceServicer,  # type: ignore[type-abstract]  # in its stubs
        CommonMethods(handlers),
        StartMethods(handlers),
        RunMethods(handlers),
    )
