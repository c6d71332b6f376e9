"""Strided slices with the masks of TensorFlow's StridedSlice, resolved to plain numbers.

Both the reference and the kernels need the numbers; what they do with them differs.

Source: TensorFlow API documentation of tf.strided_slice, on which the client's dialect models the
operation and its five masks.
"""

from dataclasses import dataclass

from appliance.core.errors import InternalError
from appliance.core.graph import Node
from appliance.numerics.attributes import integer, integers


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisSlice:
    """The elements taken along one axis of the operand: `start + step * k` for `k < length`."""

    start: int
    step: int
    length: int


def resolve_strided_slice(node: Node, shape: tuple[int, ...]) -> tuple[AxisSlice, ...]:
    """Return what is taken along each axis of the operand.

    Axes that `shrink_axis_mask` drops have length 1 here, and axes that `new_axis_mask` adds do not
    appear; the result type tells the final shape.

    Args:
        node: A StridedSlice or StridedSliceGrad.
        shape: Shape of the operand that is sliced.
    """
    begin, end = integers(node, "begin"), integers(node, "end")
    strides = integers(node, "strides")
    slices: list[AxisSlice] = []
    for index in range(len(begin)):
        if _has(node, "ellipsis_mask", index):
            rest = sum(not _has(node, "new_axis_mask", i) for i in range(index + 1, len(begin)))
            while len(slices) < len(shape) - rest:
                slices.append(AxisSlice(start=0, step=1, length=shape[len(slices)]))
        elif not _has(node, "new_axis_mask", index):
            size = shape[len(slices)]
            if _has(node, "shrink_axis_mask", index):
                slices.append(_single(node, begin[index], size))
                continue
            low = None if _has(node, "begin_mask", index) else begin[index]
            high = None if _has(node, "end_mask", index) else end[index]
            start, stop, step = slice(low, high, strides[index]).indices(size)
            slices.append(AxisSlice(start=start, step=step, length=len(range(start, stop, step))))
    slices.extend(AxisSlice(start=0, step=1, length=size) for size in shape[len(slices) :])
    return tuple(slices)


def _has(node: Node, mask: str, index: int) -> bool:
    return bool(integer(node, mask, 0) >> index & 1)


def _single(node: Node, position: int, size: int) -> AxisSlice:
    start = position + size if position < 0 else position
    if not 0 <= start < size:
        raise InternalError(
            f"{node.op} at {node.location}: index {position} is out of range for size {size}."
        )
    return AxisSlice(start=start, step=1, length=1)
