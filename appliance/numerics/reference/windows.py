"""Convolution and pooling, window by window.

A convolution is y[n, o, p] = sum over c, k of x[n, c, p stride + k dilation - padding] w[o, c, k].
It is linear in each of x, w and y, so its three passes are the same triple loop with another one of
the three on the left-hand side.
"""

from collections.abc import Iterator
from types import EllipsisType

import numpy as np

from appliance.core.ir.attributes import flag, integer, integers, text
from appliance.core.ir.graph import Node
from appliance.numerics.reference.definition import Array, Definition
from appliance.numerics.windows import Window, pooling_window

Shape = tuple[int, ...]


def convolution(node: Node, a: Array, b: Array) -> Array:
    """The pass that the node names.

    `transposed` tells whether the arithmetic is that of a transposed convolution (the pass to x):
    the gradient of a convolution is one, that of a transposed convolution is not. The pass to w is
    the same for both, as the client orders the operands.
    """
    shape = node.types[0].shape
    if text(node, "conv_pass_direction") == "BWD_KERNEL":
        w = np.zeros(shape)
        for x_at, y_at, w_at in _terms(node, a.shape, b.shape, shape):
            w[w_at] += np.sum(a[x_at][:, None] * b[y_at][:, :, None], axis=(0, *_spatial(a, 3)))
        return w
    if flag(node, "transposed"):
        x = np.zeros(shape)
        for x_at, y_at, w_at in _terms(node, shape, a.shape, b.shape):
            weights = b[w_at].reshape(*b[w_at].shape, *[1] * (a.ndim - 2))
            x[x_at] += np.sum(a[y_at][:, :, None] * weights, axis=1)
        return x
    y = np.zeros(shape)
    for x_at, y_at, w_at in _terms(node, a.shape, shape, b.shape):
        weights = b[w_at].reshape(*b[w_at].shape, *[1] * (a.ndim - 2))
        y[y_at] += np.sum(a[x_at][:, None] * weights, axis=2)
    return y


Index = tuple[slice | int, ...]


def _spatial(x: Array, first: int) -> Shape:
    return tuple(range(first, x.ndim + 1))


def _terms(
    node: Node, x_shape: Shape, y_shape: Shape, w_shape: Shape
) -> Iterator[tuple[Index, Index, Index]]:
    """Yield, for each group and kernel offset, which parts of x, y and w belong together."""
    groups = integer(node, "groups", 1)
    inputs, outputs = x_shape[1] // groups, y_shape[1] // groups
    for group in range(groups):
        x_channels = slice(group * inputs, (group + 1) * inputs)
        y_channels = slice(group * outputs, (group + 1) * outputs)
        for offset in np.ndindex(w_shape[2:]):
            along = [
                _overlap(node, axis, offset[axis], x_shape[axis + 2], y_shape[axis + 2])
                for axis in range(len(offset))
            ]
            x_at = (slice(None), x_channels, *[pair[0] for pair in along])
            y_at = (slice(None), y_channels, *[pair[1] for pair in along])
            yield x_at, y_at, (y_channels, slice(None), *offset)


def _overlap(node: Node, axis: int, k: int, x_size: int, y_size: int) -> tuple[slice, slice]:
    """Return the positions of y, and those of x, that meet at offset k along one axis."""
    stride, padding = integers(node, "stride")[axis], integers(node, "padding")[axis]
    shift = k * integers(node, "dilation")[axis] - padding
    inside = [p for p in range(y_size) if 0 <= p * stride + shift < x_size]
    if not inside:
        return slice(0, 0), slice(0, 0)
    first, last = inside[0], inside[-1]
    x_positions = slice(first * stride + shift, last * stride + shift + 1, stride)
    return x_positions, slice(first, last + 1)


def bias_add(node: Node, x: Array, bias: Array) -> Array:
    """The bias of each index along `dim`, added."""
    shape = [1] * x.ndim
    shape[integer(node, "dim")] = -1
    return x + bias.reshape(shape)


def bias_add_grad(node: Node, dy: Array) -> Array:
    """Sum over all dims but `dim`."""
    return np.asarray(
        np.sum(dy, axis=tuple(axis for axis in range(dy.ndim) if axis != integer(node, "dim")))
    )


def pool(node: Node, x: Array, y: Array) -> Array:
    """Maximum or mean of each window; with `gradient`, y is the gradient of that.

    The gradient of a maximum goes to its first occurrence. The mean divides by the size of the
    window including padding, but without what rounding up adds beyond it.
    Source: torch.nn.MaxPool3d, torch.nn.AvgPool3d (count_include_pad), torch.nn.AdaptiveAvgPool3d.
    """
    if flag(node, "adaptive"):
        return _adaptive_mean(node, x, y)
    window = pooling_window(node, x.shape, y.shape)
    if flag(node, "gradient"):
        dx = np.zeros(x.shape)
        for place in np.ndindex(y.shape):
            elements, size = _elements(window, place, x.shape)
            if text(node, "pool_type") == "MAX":
                dx[max(elements, key=lambda at: (np.isnan(x[at]), x[at]))] += y[place]
                continue
            for at in elements:
                dx[at] += y[place] / size
        return dx
    result = np.empty(node.types[0].shape)
    for place in np.ndindex(result.shape):
        elements, size = _elements(window, place, x.shape)
        values = [x[at] for at in elements]
        result[place] = np.max(values) if text(node, "pool_type") == "MAX" else sum(values) / size
    return result


def _adaptive_mean(node: Node, x: Array, y: Array) -> Array:
    """Mean of windows that together cover x and may differ in size by one; or its gradient."""
    is_gradient = flag(node, "gradient")
    result = np.zeros(node.types[0].shape)
    pooled = y if is_gradient else result
    for place in np.ndindex(pooled.shape[2:]):
        bounds = zip(place, pooled.shape[2:], x.shape[2:], strict=True)
        window = tuple(
            slice(at * size // count, -(-(at + 1) * size // count)) for at, count, size in bounds
        )
        every: tuple[EllipsisType | slice, ...] = (..., *window)
        if is_gradient:
            size = x[every].size // (x.shape[0] * x.shape[1])
            result[every] += y[(..., *place, None, None, None)] / size
        else:
            result[(..., *place)] = x[every].mean(axis=(2, 3, 4))
    return result


def _elements(window: Window, place: Shape, x_shape: Shape) -> tuple[list[Shape], int]:
    """Return the elements of x under one window, row-major, and what a mean divides by."""
    per_axis: list[list[int]] = []
    divisor = 1
    for axis, p in enumerate(place[2:]):
        front, back = window.edges[axis]
        size, stride, spread = x_shape[axis + 2], window.stride[axis], window.dilation[axis]
        start = p * stride - window.padding[axis]
        positions = [start + k * spread for k in range(window.kernel[axis])]
        end = min(start + window.kernel[axis], size + front + back + window.padding[axis])
        divisor *= end - start
        per_axis.append([q - front for q in positions if 0 <= q - front < size])
    elements = [
        (*place[:2], i, j, k) for i in per_axis[0] for j in per_axis[1] for k in per_axis[2]
    ]
    return elements, divisor


DEFINITIONS: dict[str, Definition] = {
    "BiasAdd": bias_add,
    "BiasAddGrad": bias_add_grad,
    "Convolution": convolution,
    "Pool": pool,
}
