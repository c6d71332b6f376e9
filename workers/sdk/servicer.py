"""The client's service `cerebras.sdk_appliance`: messages in, messages out.

What fails is an answer with a code and a sentence, never a status of gRPC: the client expects that.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import grpc

from appliance.core.errors import WscError
from protos.sdk import sdk_appliance_pb2 as pb
from protos.sdk import sdk_appliance_pb2_grpc
from protos.sdk.sdk_common_pb2 import StatusCode
from workers.sdk.commands import Commands, Watch
from workers.sdk.compiler import Compilation
from workers.sdk.device import Device, Place
from workers.sdk.errors import SdkError
from workers.sdk.files import JobFiles

logger = logging.getLogger(__name__)

_PART_BYTES = 64 << 20
"""Data of copies is answered in parts of this size, so that no message is a large one."""

_Result = TypeVar("_Result")
_Refusal = TypeVar("_Refusal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """What the service consists of.

    Attributes:
        files: The client's files.
        compilation: The compiler.
        commands: Shell commands.
        device: The runtime.
        keep_trace: Takes the trace of the fabric that programs have left, if they have.
        on_error: Told of everything that fails.
        on_event: Told of what has been done: a word for it, and a sentence.
    """

    files: JobFiles
    compilation: Compilation
    commands: Commands
    device: Device
    keep_trace: Callable[[], None]
    on_error: Callable[[SdkError], None]
    on_event: Callable[[str, str], None]


class SdkServicer(sdk_appliance_pb2_grpc.sdk_applianceServicer):
    """Serves one job's client.

    Args:
        handlers: See there.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def sdk_upload_files(
        self, request_iterator: Iterator[pb.SdkArtifactsArgs], context: grpc.ServicerContext
    ) -> pb.SdkResponse:
        """Take files in, and say if they are sources that were compiled before."""

        def take() -> pb.SdkResponse:
            upload = self._handlers.files.take(request_iterator)
            if upload.is_source and self._handlers.compilation.take_sources(upload):
                self._handlers.on_event(
                    "SdkCacheHit", f"Program {upload.target} was compiled before."
                )
                return pb.SdkResponse(code=StatusCode.SDK_RT_ALREADY_COMPILED)
            return pb.SdkResponse()

        return self._respond(take)

    def sdk_compile(
        self, request: pb.SdkCompilerArgs, context: grpc.ServicerContext
    ) -> pb.SdkResponse:
        """Compile uploaded sources; the answer's message is what the compiler printed."""
        watch = _watch(context)

        def compile_() -> pb.SdkResponse:
            text = self._handlers.compilation.compile(
                request.compile_hash, list(request.options), watch
            )
            self._handlers.on_event("SdkCompiled", f"Program {request.compile_hash} is compiled.")
            return pb.SdkResponse(message=text)

        return self._respond(compile_)

    def sdk_download_files(
        self, request: pb.SdkArtifactDownloadArgs, context: grpc.ServicerContext
    ) -> Iterator[pb.SdkArtifactResponse]:
        """Hand out a compiled program, a file or a directory, in one message."""

        def read() -> pb.SdkArtifactResponse:
            name, data = f"{request.file_name}.tar.gz", self._compiled(request.file_name)
            if data is None:
                name, data = self._handlers.files.read(request.file_name)
            found = pb.SdkArtifactResponse.SdkArtifactData(
                file_name=name, data_chunk=data, num_bytes=len(data), total_bytes=len(data)
            )
            return pb.SdkArtifactResponse(data=found)

        yield self._attempt(read, lambda status: pb.SdkArtifactResponse(status=status))

    def sdk_run_command(
        self, request_iterator: Iterator[pb.SdkRunCommandParams], context: grpc.ServicerContext
    ) -> pb.SdkResponse:
        """Run commands; the answer's message is what they printed."""
        watch = _watch(context)
        commands = ((each.app_hash, each.command) for each in request_iterator)

        def run() -> pb.SdkResponse:
            text = self._handlers.commands.run(commands, watch)
            self._handlers.keep_trace()
            return pb.SdkResponse(message=text)

        return self._respond(run)

    def sdk_runtime_create(
        self, request: pb.SdkCreateArgs, context: grpc.ServicerContext
    ) -> pb.SdkResponse:
        """Make a runtime."""
        return self._do(lambda: self._handlers.device.create(request.app_hash))

    def sdk_runtime_start(
        self, request: pb.SdkEmptyMessage, context: grpc.ServicerContext
    ) -> pb.SdkResponse:
        """Load and run the program."""

        def start() -> None:
            self._handlers.device.start()
            self._handlers.on_event("SdkRuntimeStarted", "The program runs.")

        return self._do(start)

    def sdk_runtime_stop(
        self, request: pb.SdkEmptyMessage, context: grpc.ServicerContext
    ) -> pb.SdkResponse:
        """End the run."""

        def stop() -> None:
            self._handlers.device.stop()
            self._handlers.keep_trace()

        return self._do(stop)

    def sdk_runtime_get_id(
        self, request: pb.SdkGetIdParams, context: grpc.ServicerContext
    ) -> pb.SdkGetIdResponse:
        """Return the number of a symbol."""
        return self._attempt(
            lambda: pb.SdkGetIdResponse(
                status=pb.SdkResponse(), id=self._handlers.device.id_of(request.symbol)
            ),
            lambda status: pb.SdkGetIdResponse(status=status, id=-1),
        )

    def sdk_runtime_call(
        self, request: pb.SdkCallArgs, context: grpc.ServicerContext
    ) -> pb.SdkResponse:
        """Call a function of the program."""
        return self._do(
            lambda: self._handlers.device.call(
                request.op_index,
                request.name,
                list(request.params),
                nonblock=request.options.nonblock,
            )
        )

    def sdk_runtime_memcpy_h2d(
        self, request_iterator: Iterator[pb.MemcpyH2DParams], context: grpc.ServicerContext
    ) -> pb.SdkResponse:
        """Copy to the device."""

        def copy() -> None:
            data = bytearray()
            last = pb.MemcpyH2DParams()
            for last in request_iterator:
                data += last.src.data_chunk
            if last.src.total_bytes != len(data):
                raise SdkError(
                    f"The copy has {len(data)} bytes of {last.src.total_bytes} announced."
                )
            place = _place(last.dest, last)
            self._handlers.device.copy_in(last.op_index, place, last.options, bytes(data))

        return self._do(copy)

    def sdk_runtime_memcpy_d2h(
        self, request: pb.MemcpyD2HParams, context: grpc.ServicerContext
    ) -> Iterator[pb.SdkD2HResponse]:
        """Copy from the device; an operation that does not block answers that it has begun."""
        place = _place(request.src, request)
        found = self._attempt(
            lambda: self._handlers.device.copy_out(request.op_index, place, request.options),
            lambda status: pb.SdkD2HResponse(status=status),
        )
        if isinstance(found, pb.SdkD2HResponse):
            yield found
        elif request.options.nonblock:
            yield pb.SdkD2HResponse(status=pb.SdkResponse())
        else:
            yield from (pb.SdkD2HResponse(d2h_data=part) for part in _parts(found))

    def sdk_runtime_task_wait(
        self, request: pb.SdkRuntimeTask, context: grpc.ServicerContext
    ) -> Iterator[pb.SdkTaskDoneResponse]:
        """Wait for an operation that did not block."""
        yield from self._task(lambda: (True, self._handlers.device.wait(request.op_index)))

    def sdk_runtime_is_task_done(
        self, request: pb.SdkRuntimeTask, context: grpc.ServicerContext
    ) -> Iterator[pb.SdkTaskDoneResponse]:
        """Say whether such an operation has ended."""
        yield from self._task(lambda: self._handlers.device.is_done(request.op_index))

    def sdk_get_symbol_rect(
        self, request: pb.SdkGetSymbolParams, context: grpc.ServicerContext
    ) -> Iterator[pb.SdkD2HResponse]:
        """Return what a symbol holds after the run."""
        rectangle = (request.x, request.y, request.w, request.h)
        found = self._attempt(
            lambda: self._handlers.device.symbol_rect(
                request.app_hash, rectangle, request.symbol, request.bytes_per_elem
            ),
            lambda status: pb.SdkD2HResponse(status=status),
        )
        if isinstance(found, pb.SdkD2HResponse):
            yield found
        else:
            yield from (pb.SdkD2HResponse(d2h_data=part) for part in _parts(found))

    def sdk_shutdown(
        self, request: pb.SdkEmptyMessage, context: grpc.ServicerContext
    ) -> pb.SdkResponse:
        """The client will ask for nothing more: end the runtime; the job ends by its own call."""
        self._handlers.device.close("the client has shut down")
        return pb.SdkResponse()

    def _compiled(self, name: str) -> bytes | None:
        return self._handlers.compilation.find(name)

    def _task(
        self, look: Callable[[], tuple[bool, bytes | None]]
    ) -> Iterator[pb.SdkTaskDoneResponse]:
        found = self._attempt(look, lambda status: pb.SdkTaskDoneResponse(status=status))
        if isinstance(found, pb.SdkTaskDoneResponse):
            yield found
            return
        is_done, data = found
        info = pb.SdkTaskDoneResponse.SdkTaskInfo
        if data is None:
            state = info(state=pb.SdkTaskState(done=is_done))
            yield pb.SdkTaskDoneResponse(info=state)
            return
        for part in _parts(data):
            yield pb.SdkTaskDoneResponse(info=info(d2h_data=part))

    def _do(self, action: Callable[[], None]) -> pb.SdkResponse:
        def act() -> pb.SdkResponse:
            action()
            return pb.SdkResponse()

        return self._respond(act)

    def _respond(self, action: Callable[[], pb.SdkResponse]) -> pb.SdkResponse:
        return self._attempt(action, lambda status: status)

    def _attempt(
        self, action: Callable[[], _Result], refuse: Callable[[pb.SdkResponse], _Refusal]
    ) -> _Result | _Refusal:
        """Return what an action returns, or the answer that says why it failed."""
        try:
            return action()
        except SdkError as error:
            failure = error
        except (WscError, OSError) as error:
            logger.exception("Request failed")
            failure = SdkError(str(error), StatusCode.SDK_RT_INTERNAL_ERROR)
        self._handlers.keep_trace()
        self._handlers.on_error(failure)
        return refuse(pb.SdkResponse(code=failure.code, message=failure.message))


def _watch(context: grpc.ServicerContext) -> Watch:
    watch = Watch()
    if not context.add_callback(watch.client_left):
        watch.client_left()
    return watch


def _place(target: int, request: pb.MemcpyH2DParams | pb.MemcpyD2HParams) -> Place:
    return Place(target, request.x, request.y, request.w, request.h, request.elt_per_pe)


def _parts(data: bytes) -> Iterator[pb.MemcpyData]:
    """Yield data part by part; one part if there is none."""
    for start in range(0, max(len(data), 1), _PART_BYTES):
        part = data[start : start + _PART_BYTES]
        yield pb.MemcpyData(data_chunk=part, num_bytes=len(part), total_bytes=len(data))
