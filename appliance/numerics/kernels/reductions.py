"""Reductions over axes: sums, extrema, norms, softmax, scans, order statistics."""

from collections.abc import Callable, Sequence

import torch

from appliance.core.errors import InternalError
from appliance.core.ir.attributes import flag, integer, integers, resolve_axes, text
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.elements import torch_dtype
from appliance.numerics.kernels.kernel import Builders, Kernel

Axes = tuple[int, ...]


def _product(x: torch.Tensor, axes: Axes) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, dtype=x.dtype)
    return x


def _index_of(
    search: Callable[[torch.Tensor, int], torch.Tensor],
) -> Callable[[torch.Tensor, Axes], torch.Tensor]:
    """Return a reduction to the index of an extremum among the reduced elements, row-major."""

    def reduction(x: torch.Tensor, axes: Axes) -> torch.Tensor:
        kept = [axis for axis in range(x.dim()) if axis not in axes]
        rows = x.permute(*kept, *axes).reshape([x.shape[axis] for axis in kept] + [-1])
        return search(rows, -1)

    return reduction


_REDUCTIONS: dict[str, Callable[[torch.Tensor, Axes], torch.Tensor]] = {
    "ADD": lambda x, axes: torch.sum(x, axes, dtype=x.dtype),
    "MEAN": torch.mean,
    "MAX": torch.amax,
    "MIN": torch.amin,
    "MUL": _product,
    "OR": torch.any,
    "AND": torch.all,
    "ARGMAX": _index_of(torch.argmax),
    "ARGMIN": _index_of(torch.argmin),
}


def _reduce(node: Node, types: Sequence[TensorType]) -> Kernel:
    kind = text(node, "reduce_kind")
    axes = resolve_axes(integers(node, "dimensions"), len(types[0].shape))
    shape = node.types[0].shape
    if kind not in _REDUCTIONS:
        raise InternalError(f"Reduce at {node.location}: kind {kind!r} is not known.")
    if not axes:
        return Kernel(call=torch.clone, into=torch.Tensor.copy_)
    if kind == "ADD" and len(shape) in (len(types[0].shape), len(types[0].shape) - len(axes)):
        return _sum(axes, len(shape) == len(types[0].shape))
    reduction = _REDUCTIONS[kind]
    return Kernel(call=lambda x: reduction(x, axes).reshape(shape))


def _sum(axes: Axes, kept: bool) -> Kernel:
    def into(out: torch.Tensor, x: torch.Tensor) -> None:
        torch.sum(x, axes, keepdim=kept, dtype=x.dtype, out=out)

    return Kernel(call=lambda x: torch.sum(x, axes, keepdim=kept, dtype=x.dtype), into=into)


def _l2_norm(node: Node, types: Sequence[TensorType]) -> Kernel:
    axes = resolve_axes(integers(node, "dims"), len(types[0].shape))
    kept = flag(node, "keepdim")
    if not axes:
        return Kernel(call=torch.abs)
    norm = torch.linalg.vector_norm
    return Kernel(call=lambda x: norm(x, dim=axes, keepdim=kept))


def _softmax(node: Node, _types: Sequence[TensorType]) -> Kernel:
    axis, write = integer(node, "axis"), torch.ops.aten._softmax.out

    def into(out: torch.Tensor, x: torch.Tensor) -> None:
        if not out.is_contiguous():  # torch would take it for contiguous
            out.copy_(torch.softmax(x, axis))
            return
        write(x, axis, False, out=out)

    return Kernel(call=lambda x: torch.softmax(x, axis), into=into)


def _scan(
    function: Callable[..., torch.Tensor], neutral: int
) -> Callable[[Node, Sequence[TensorType]], Kernel]:
    """Return the builder of a cumulative operation whose empty result is `neutral`."""

    def build(node: Node, types: Sequence[TensorType]) -> Kernel:
        axis = integer(node, "axis")
        exclusive, reverse = flag(node, "exclusive"), flag(node, "reverse")
        length = types[0].shape[axis]
        if not exclusive and not reverse:
            return Kernel(call=lambda x: function(x, axis, dtype=x.dtype))

        def call(x: torch.Tensor) -> torch.Tensor:
            y = function(x.flip(axis) if reverse else x, axis, dtype=x.dtype)
            if exclusive and length:
                first = torch.full_like(y.narrow(axis, 0, 1), neutral)
                y = torch.cat((first, y.narrow(axis, 0, length - 1)), axis)
            return y.flip(axis) if reverse else y

        return Kernel(call=call)

    return build


def _top_k(node: Node, _types: Sequence[TensorType]) -> Kernel:
    """Return the kernel of the k extreme elements; among equals the lowest index comes first."""
    axis, count = integer(node, "dimension"), integer(node, "k")
    largest = flag(node, "largest", default=True)

    def call(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, index = torch.sort(x, dim=axis, descending=largest, stable=True)
        return values.narrow(axis, 0, count), index.narrow(axis, 0, count)

    return Kernel(call=call)


def _order_statistic(node: Node, _types: Sequence[TensorType]) -> Kernel:
    count, axis = integer(node, "k"), integer(node, "dimension")
    dtype = torch_dtype(node.types[0].dtype)

    def call(x: torch.Tensor) -> torch.Tensor:
        largest = x.sort(dim=axis, descending=True, stable=True)[1].narrow(axis, 0, count)
        return torch.zeros(x.shape, dtype=dtype, device=x.device).scatter_(axis, largest, 1)

    return Kernel(call=call)


BUILDERS: Builders = {
    "CumProd": _scan(torch.cumprod, 1),
    "CumSum": _scan(torch.cumsum, 0),
    "L2Norm": _l2_norm,
    "NthOrderStatistic": _order_statistic,
    "Reduce": _reduce,
    "Softmax": _softmax,
    "TopK": _top_k,
}
