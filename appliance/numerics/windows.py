"""Geometry of sliding windows and paddings: what a node says about them, made complete.

The client's pooling nodes do not say everything. The stride is 1 where the user left it out (it is
the kernel size then), the dilation is always 1, and rounding up (`ceil_mode`) is not mentioned;
only the shapes tell. `pooling_window` finds the reading that explains them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from appliance.core.errors import InternalError
from appliance.core.ir.attributes import flag, integers
from appliance.core.ir.graph import Node

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A sliding window over the spatial axes.

    Attributes:
        kernel: Size along each axis.
        stride: Distance between windows.
        dilation: Distance between the elements of a window.
        padding: Elements added on both sides.
        edges: Elements added before that, in front and behind, where the two sides differ.
        rounds_up: Whether the last window may reach beyond the padded input.
    """

    kernel: Sizes
    stride: Sizes
    dilation: Sizes
    padding: Sizes
    edges: tuple[tuple[int, int], ...]
    rounds_up: bool = False

    def output_sizes(self, sizes: Sizes) -> Sizes:
        """Return the number of windows along each axis, as torch counts them."""
        return tuple(self._count(axis, size) for axis, size in enumerate(sizes))

    def _count(self, axis: int, size: int) -> int:
        stride, padding = self.stride[axis], self.padding[axis]
        size += sum(self.edges[axis])
        room = size + 2 * padding - self.dilation[axis] * (self.kernel[axis] - 1) - 1
        if room < 0:
            return 0
        if not self.rounds_up:
            return room // stride + 1
        count = -(-room // stride) + 1
        starts_in_padding = (count - 1) * stride >= size + padding
        return count - 1 if starts_in_padding else count


def pooling_window(node: Node, x_shape: Sizes, y_shape: Sizes) -> Window:
    """Return the window of a Pool node, channels first.

    Args:
        x_shape: Shape of what is pooled.
        y_shape: Shape of the second operand: of the gradient, if the node is the gradient.

    Raises:
        InternalError: No reading of the attributes gives the shape of the result.
    """
    pooled = y_shape if flag(node, "gradient") else node.types[0].shape
    sizes, expected = x_shape[2:], pooled[2:]
    for window in _readings(node):
        if window.output_sizes(sizes) == expected:
            return window
    raise InternalError(
        f"Pool at {node.location}: kernel {integers(node, 'ksize')}, strides "
        f"{integers(node, 'strides')} and padding {integers(node, 'padding')} do not turn sizes "
        f"{sizes} into {expected}."
    )


def _readings(node: Node) -> Iterator[Window]:
    """Yield what a Pool node may mean, the likeliest first."""
    axes = slice(2, 5)
    kernel, stride = integers(node, "ksize")[axes], integers(node, "strides")[axes]
    dilation, padding = integers(node, "dilation")[axes], integers(node, "padding")
    low, high = padding[::2][axes], padding[1::2][axes]
    both = low if low == high else (0, 0, 0)
    edges = tuple((a - c, b - c) for a, b, c in zip(low, high, both, strict=True))
    choices = [(stride, dilation), (kernel, dilation)]
    choices += [
        (given, tuple(1 if size == 1 else spread for size in kernel))
        for spread in range(2, 9)
        for given in (stride, kernel)
    ]
    for given_stride, given_dilation in choices:
        for rounds_up in (False, True):
            yield Window(
                kernel=kernel,
                stride=given_stride,
                dilation=given_dilation,
                padding=both,
                edges=edges,
                rounds_up=rounds_up,
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
