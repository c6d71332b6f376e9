"""Reductions over axes: sums, extrema, norms, softmax, scans."""

from collections.abc import Callable, Sequence

import torch

from appliance.core.errors import InternalError
from appliance.core.graph import Node
from appliance.core.tensors import TensorType
from appliance.numerics.attributes import flag, integer, integers, resolve_axes, text
from appliance.numerics.kernels.kernel import Builders, Kernel

Axes = tuple[int, ...]
Reduction = Callable[[torch.Tensor, Axes], torch.Tensor]


def _product(x: torch.Tensor, axes: Axes) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, dtype=x.dtype)
    return x


_REDUCTIONS: dict[str, Reduction] = {
    "ADD": lambda x, axes: x.sum(axes, dtype=x.dtype),
    "MEAN": torch.mean,
    "MAX": torch.amax,
    "MIN": torch.amin,
    "MUL": _product,
    "PROD": _product,
    "ANY": torch.any,
    "OR": torch.any,
    "ALL": torch.all,
    "AND": torch.all,
}


def _reduce(node: Node, types: Sequence[TensorType]) -> Kernel:
    kind = text(node, "reduce_kind")
    axes = resolve_axes(integers(node, "dimensions"), len(types[0].shape))
    shape = node.types[0].shape
    if not axes:
        return Kernel(call=lambda x: x)
    if kind not in _REDUCTIONS:
        raise InternalError(f"Reduce at {node.location}: kind {kind!r} is not known.")
    kept = len(shape) == len(types[0].shape)
    if kind == "ADD":
        return _sum(axes, kept)
    reduction = _REDUCTIONS[kind]
    return Kernel(call=lambda x: reduction(x, axes).reshape(shape))


def _sum(axes: Axes, kept: bool) -> Kernel:
    def into(out: torch.Tensor, x: torch.Tensor) -> None:
        torch.sum(x, axes, keepdim=kept, dtype=x.dtype, out=out)

    return Kernel(call=lambda x: torch.sum(x, axes, keepdim=kept, dtype=x.dtype), into=into)


def _l2_norm(node: Node, types: Sequence[TensorType]) -> Kernel:
    axes = resolve_axes(integers(node, "dims"), len(types[0].shape))
    kept = flag(node, "keepdim")
    norm = torch.linalg.vector_norm
    return Kernel(call=lambda x: norm(x, dim=axes, keepdim=kept))


def _softmax(node: Node, _types: Sequence[TensorType]) -> Kernel:
    axis = integer(node, "axis")
    return Kernel(call=lambda x: torch.softmax(x, axis))


BUILDERS: Builders = {
    "L2Norm": _l2_norm,
    "Reduce": _reduce,
    "Softmax": _softmax,
}
