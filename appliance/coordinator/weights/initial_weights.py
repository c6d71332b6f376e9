"""Initial values on their way from the client into MemoryX's store.

The store's segment is mapped here, and what arrives is converted straight into it. A tensor counts
as arrived only when all its bytes are there, so a cut stream commits nothing.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from appliance.coordinator.weights.intake import Intake
from appliance.core.errors import ConflictError, NotFoundError, UserError
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.plan import Plan, StateTensor
from appliance.wire import rtfx
from appliance.wire.tensor_chunks import TensorChunk
from protos.appliance.appliance_service_pb2 import SendInputRequest
from protos.appliance.rtfx_pb2 import RtFxProto

Views = Mapping[str, NDArray[np.generic]]


class TensorWriter:
    """Converts the chunks of one tensor into its container.

    Args:
        name: The tensor, for messages.
        expected: Its shape and wire element type.
        out: The container.
    """

    def __init__(self, name: str, expected: TensorType, out: NDArray[np.generic]) -> None:
        self._name, self._expected = name, expected
        self._out = out.reshape(-1)
        self._itemsize = rtfx.encoded_dtype(expected.dtype).itemsize
        self._rest = b""
        self._num_bytes = 0

    def write(self, data: memoryview | bytes) -> None:
        """Take the next chunk; it is not kept.

        Raises:
            UserError: More bytes than the tensor has.
        """
        self._num_bytes += len(data)
        if self._num_bytes > self._out.size * self._itemsize:
            rtfx.check_length(self._name, self._num_bytes, self._expected, is_scalar=False)
        if self._rest:
            data = self._rest + bytes(data)
        whole = len(data) - len(data) % self._itemsize
        self._rest = bytes(data[whole:])
        values = np.frombuffer(data[:whole], rtfx.encoded_dtype(self._expected.dtype))
        end = (self._num_bytes - len(self._rest)) // self._itemsize
        rtfx.decode(values, self._expected.dtype, self._out[end - values.size : end])

    def finish(self) -> None:
        """Check that every byte has come.

        Raises:
            UserError: Some are missing.
        """
        rtfx.check_length(self._name, self._num_bytes, self._expected, is_scalar=False)


class WeightIngress:
    """Takes the initial state of one session.

    Args:
        plan: Says which tensors there are.
        views: The containers in the store, by resource name.
    """

    def __init__(self, plan: Plan, views: Views) -> None:
        self._tensors = {tensor.resource_name: tensor for tensor in plan.state}
        self._views = views
        self._written: set[str] = set()
        self._intake = Intake()

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the tensors written here, sorted."""
        return tuple(sorted(self._written))

    def tensor(self, name: str) -> StateTensor:
        """Return a state tensor of the program.

        Raises:
            NotFoundError: There is none of that name.
        """
        if name not in self._tensors:
            raise NotFoundError(f"The program has no state tensor {name!r}.")
        return self._tensors[name]

    def wire_type(self, name: str) -> TensorType:
        """Return shape and wire element type of a state tensor; raises as `tensor` does."""
        tensor = self.tensor(name)
        return TensorType(tensor.type.shape, tensor.wire_dtype)

    def receive(self, chunks: Iterator[TensorChunk]) -> Iterator[str]:
        """Take one tensor from a stream of messages.

        Yields:
            An empty string once the sender may go on, and the tensor's name when it is complete.

        Raises:
            UserError: Type, shape or length are wrong, or the name is.
        """
        first = next(chunks, None)
        if first is None:
            raise UserError("A stream of weights ended before it named a tensor.")
        name, proto = self._announced(first.message)
        if proto.WhichOneof("contents") == "scalar":
            self.fill(name, proto)
            yield name
            return
        with self._intake.room(self._views[name].nbytes):
            writer = TensorWriter(name, self.wire_type(name), self._views[name])
            writer.write(first.data)
            del first
            yield ""
            for chunk in chunks:
                writer.write(chunk.data)
                del chunk  # or it would stay until the next one is there
            writer.finish()
        self._written.add(name)
        yield name

    def fill(self, name: str, proto: RtFxProto) -> None:
        """Give every element of a tensor one value; raises as `receive` does."""
        expected = self._fresh(name)
        rtfx.check_announced(name, None, proto.dtype, expected=expected)
        rtfx.check_length(name, len(proto.scalar.data), expected, is_scalar=True)
        value = rtfx.join([proto.scalar.data], expected.dtype)
        rtfx.decode(value.reshape(()), expected.dtype, self._views[name])
        self._written.add(name)

    def put(self, name: str, values: NDArray[np.generic], dtype: DType) -> None:
        """Give a tensor values that are there already, in the wire's encoding."""
        self._fresh(name)
        rtfx.decode(values, dtype, self._views[name])
        self._written.add(name)

    def take(self, name: str, values: NDArray[np.generic]) -> None:
        """Give a tensor values of its own shape and type as computed with."""
        self._fresh(name)
        self._views[name][...] = values
        self._written.add(name)

    def _announced(self, first: SendInputRequest) -> tuple[str, RtFxProto]:
        if first.WhichOneof("info_type") != "tensor_name":
            raise UserError("A stream of weights names no tensor; tensors are known by name here.")
        name, proto = first.tensor_name, first.rtfx_proto
        is_scalar = proto.WhichOneof("contents") == "scalar"
        shape = None if is_scalar else proto.tensor.shape
        rtfx.check_announced(name, shape, proto.dtype, expected=self._fresh(name))
        return name, proto

    def _fresh(self, name: str) -> TensorType:
        expected = self.wire_type(name)
        if name in self._written:
            raise ConflictError(f"Tensor {name!r} was sent twice in one session.")
        return expected
