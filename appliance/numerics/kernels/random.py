"""Random operations, counter-based: the same numbers however the batch is cut."""

from collections.abc import Sequence

import torch

from appliance.core.graph import Node
from appliance.core.tensors import DType, TensorType
from appliance.numerics.attributes import integer, integers
from appliance.numerics.kernels.kernel import Builders, Kernel
from appliance.numerics.philox import Placement, Stream, normal, uniform

FRACTION_BITS: dict[DType, int] = {DType.F16: 11, DType.CB16: 10, DType.BF16: 8}
"""Random bits of a uniform number in [0, 1) that a 16-bit format represents exactly: its
significand, so that rounding cannot yield 1."""


def placement_of(node: Node) -> Placement:
    """Return where a random node's result lies in the global tensor."""
    shape = node.types[0].shape
    global_shape = integers(node, "global_shape", shape)
    axis = integer(node, "axis", 0)
    return Placement(
        shape=shape,
        axis=axis,
        start=integer(node, "start", 0),
        global_size=global_shape[axis] if global_shape else None,
    )


def _stream_of(node: Node) -> tuple[int, int]:
    return integer(node, "global_seed", 0), integer(node, "stream", 0)


def _random_uniform(node: Node, _types: Sequence[TensorType]) -> Kernel:
    placement, (seed, stream) = placement_of(node), _stream_of(node)
    bits = FRACTION_BITS.get(node.types[0].dtype, 24)

    def call(low: torch.Tensor, high: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        source = Stream(seed=seed, stream=stream, step=int(step))
        unit = uniform(placement, source, bits=bits)
        below_high = torch.nextafter(high, low)
        return torch.minimum(unit.mul_(high - low).add_(low), below_high)

    return Kernel(call=call, reads_step=True)


def _random_normal(node: Node, _types: Sequence[TensorType]) -> Kernel:
    placement, (seed, stream) = placement_of(node), _stream_of(node)

    def call(mean: torch.Tensor, deviation: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        source = Stream(seed=seed, stream=stream, step=int(step))
        return normal(placement, source).mul_(deviation).add_(mean)

    return Kernel(call=call, reads_step=True)


BUILDERS: Builders = {"RandomNormal": _random_normal, "RandomUniform": _random_uniform}
