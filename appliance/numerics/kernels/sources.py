"""Kernels without operands: constants, ranges, random numbers."""

from collections.abc import Sequence

import numpy as np
import torch

from appliance.core.ir.attributes import constant, integer, integers, number
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.elements import torch_constant, torch_dtype
from appliance.numerics.kernels.kernel import Builders, Kernel
from appliance.numerics.philox import Placement, Stream, normal, uniform

FRACTION_BITS: dict[DType, int] = {DType.F16: 11, DType.CB16: 10, DType.BF16: 8}
"""Random bits of a uniform number in [0, 1) that a 16-bit format represents exactly: the width of
its significand, so that rounding cannot yield 1."""


def _const(node: Node, _types: Sequence[TensorType]) -> Kernel:
    tensor = torch_constant(constant(node, "value"))
    return Kernel(call=lambda: tensor)


def _arange(node: Node, _types: Sequence[TensorType]) -> Kernel:
    shape, dtype = node.types[0].shape, node.types[0].dtype
    start, step, axis = number(node, "start"), number(node, "step"), integer(node, "dim", 0)
    if dtype.is_float:
        line = torch.arange(shape[axis], dtype=torch.float64) * step + start
    else:
        line = torch.arange(shape[axis], dtype=torch.int64) * int(step) + int(start)
    column = [1] * len(shape)
    column[axis] = shape[axis]
    values = line.to(torch_dtype(dtype)).reshape(column).expand(shape)
    return Kernel(call=lambda: values)


def placement_of(node: Node) -> Placement:
    """Return where a random node's result lies in the global tensor."""
    shape = node.types[0].shape
    global_shape, axis = integers(node, "global_shape", shape), integer(node, "axis", 0)
    return Placement(
        shape=shape,
        axis=axis,
        start=integer(node, "start", 0),
        global_size=global_shape[axis] if global_shape else None,
    )


def _random_uniform(node: Node, _types: Sequence[TensorType]) -> Kernel:
    placement, dtype = placement_of(node), torch_dtype(node.types[0].dtype)
    seed, stream = integer(node, "seed"), integer(node, "stream")
    bits = FRACTION_BITS.get(node.types[0].dtype, 24)
    low, high = number(node, "low"), number(node, "high")
    below_high = float(np.nextafter(np.float32(high), np.float32(low)))
    is_unit = (low, high) == (0.0, 1.0)

    def call(step: torch.Tensor) -> torch.Tensor:
        unit = uniform(placement, Stream(seed=seed, stream=stream, step=int(step)), bits=bits)
        if is_unit:
            return unit.to(dtype)
        return unit.mul_(high - low).add_(low).clamp_(max=below_high).to(dtype)

    return Kernel(call=call, reads_step=True)


def _random_normal(node: Node, _types: Sequence[TensorType]) -> Kernel:
    placement, dtype = placement_of(node), torch_dtype(node.types[0].dtype)
    seed, stream = integer(node, "seed"), integer(node, "stream")
    mean, deviation = number(node, "mean"), number(node, "deviation")

    def call(step: torch.Tensor) -> torch.Tensor:
        standard = normal(placement, Stream(seed=seed, stream=stream, step=int(step)))
        return standard.mul_(deviation).add_(mean).to(dtype)

    return Kernel(call=call, reads_step=True)


def _position(node: Node, _types: Sequence[TensorType]) -> Kernel:
    shape, dtype = node.types[0].shape, torch_dtype(node.types[0].dtype)
    return Kernel(call=lambda step: step.to(dtype).expand(shape), reads_step=True)


BUILDERS: Builders = {
    "Arange": _arange,
    "Const": _const,
    "RandomNormal": _random_normal,
    "RandomUniform": _random_uniform,
    "wsc.Position": _position,
}
