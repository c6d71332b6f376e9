"""Geometry of sliding windows and paddings: what a node says about them, made complete.

The client's pooling nodes do not say everything. The stride is 1 where the user left it out (it is
the kernel size then), the dilation is always 1, and rounding up (`ceil_mode`) is not mentioned; only
the shapes tell. `pooling_window` finds the reading that explains them.
"""

from dataclasses import dataclass

from appliance.core.errors import InternalError
from appliance.core.graph import Node
from appliance.numerics.attributes import integers

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A sliding window over the spatial axes.

    Attributes:
        kernel: Size along each axis.
        stride: Distance between windows.
        dilation: Distance between the elements of a window.
        padding: Elements added in front.
        rounds_up: Whether the last window may reach beyond the padded input.
    """

    kernel: Sizes
    stride: Sizes
    dilation: Sizes
    padding: Sizes
    rounds_up: bool = False

    def output_sizes(self, sizes: Sizes) -> Sizes:
        """Return the number of windows along each axis, as torch counts them."""
        return tuple(self._count(axis, size) for axis, size in enumerate(sizes))

    def _count(self, axis: int, size: int) -> int:
        stride, padding = self.stride[axis], self.padding[axis]
        room = size + 2 * padding - self.dilation[axis] * (self.kernel[axis] - 1) - 1
        if room < 0:
            return 0
        if not self.rounds_up:
            return room // stride + 1
        count = -(-room // stride) + 1
        starts_in_padding = (count - 1) * stride >= size + padding
        return count - 1 if starts_in_padding else count


def symmetric_padding(node: Node, rank: int) -> Sizes:
    """Return the padding per spatial axis; the node may list one number per axis or two."""
    padding = integers(node, "padding")
    if len(padding) == rank:
        return padding
    low, high = padding[::2], padding[1::2]
    if len(low) != rank or low != high:
        raise InternalError(f"{node.op} at {node.location}: padding {padding} is not symmetric.")
    return low


def pooling_window(node: Node, sizes: Sizes, output_sizes: Sizes) -> Window:
    """Return the window of a Pool node (layout NCDHW) for its spatial sizes.

    Args:
        node: The node.
        sizes: Depth, height and width of the pooled tensor.
        output_sizes: The same of the result.

    Raises:
        InternalError: No reading of the attributes gives the output sizes.
    """
    kernel = integers(node, "ksize")[-3:]
    stride = integers(node, "strides")[-3:]
    dilation = integers(node, "dilation", (1, 1, 1))[-3:]
    padding = symmetric_padding(node, 5)[-3:]
    readings = [(stride, dilation), (kernel, dilation)]
    readings += [(given, (1, d, d)) for d in range(2, 9) for given in (stride, kernel)]
    for chosen_stride, chosen_dilation in readings:
        for rounds_up in (False, True):
            window = Window(
                kernel=kernel,
                stride=chosen_stride,
                dilation=chosen_dilation,
                padding=padding,
                rounds_up=rounds_up,
            )
            if window.output_sizes(sizes) == output_sizes:
                return window
    raise InternalError(
        f"Pool at {node.location}: kernel {kernel}, stride {stride}, padding {padding} do not turn "
        f"{sizes} into {output_sizes}."
    )


def pad_parts(node: Node, shape: Sizes) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return which part of a pad's operand goes where in its result.

    A negative edge crops; interior padding sets elements apart; everything else of the result has
    the fill value.

    Args:
        node: The pad.
        shape: Shape of its operand.

    Returns:
        Index into the operand and index into the result.
    """
    low, interior = integers(node, "edge_padding_low"), integers(node, "interior_padding")
    source, target = [], []
    for axis, size in enumerate(shape):
        step = interior[axis] + 1
        first = max(0, -(low[axis] // step))
        start = low[axis] + first * step
        room = max(0, -(-(node.types[0].shape[axis] - start) // step))
        count = max(0, min(size - first, room))
        source.append(slice(first, first + count))
        target.append(slice(start, start + count * step, step))
    return tuple(source), tuple(target)
