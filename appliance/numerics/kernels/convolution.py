"""Convolution, pooling and their gradients.

A Convolution node is one of three products of the same trilinear form in input x, weight w and
output gradient g: the convolution of x and w; its adjoint in x (`transposed`); its adjoint in w
(`BWD_KERNEL`). So the pass directions FWD and BWD_INPUT need no telling apart: the gradient of a
convolution is a transposed convolution and the other way round.
"""

from collections.abc import Sequence

import torch

from appliance.core.graph import Node
from appliance.core.tensors import TensorType
from appliance.numerics.attributes import flag, integer, integers, text
from appliance.numerics.kernels.kernel import Builders, Kernel
from appliance.numerics.windows import Window, pooling_window, symmetric_padding


def _convolution(node: Node, types: Sequence[TensorType]) -> Kernel:
    rank = len(types[0].shape) - 2
    window = (
        integers(node, "stride"),
        symmetric_padding(node, rank),
        integers(node, "dilation"),
    )
    groups = integer(node, "groups", 1)
    if text(node, "conv_pass_direction", "FWD") == "BWD_KERNEL":
        return _weight_gradient(node.types[0].shape, window, groups)
    if flag(node, "transposed"):
        return _transposed_convolution(node.types[0].shape, window, groups)
    stride, padding, dilation = window
    zero = (0,) * rank
    return Kernel(
        call=lambda x, w: torch.convolution(
            x, w, None, stride, padding, dilation, False, zero, groups
        )
    )


def _transposed_convolution(
    shape: tuple[int, ...], window: tuple[tuple[int, ...], ...], groups: int
) -> Kernel:
    stride, padding, dilation = window

    def call(g: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        extra = tuple(
            shape[axis + 2]
            - ((g.shape[axis + 2] - 1) * stride[axis] - 2 * padding[axis])
            - dilation[axis] * (w.shape[axis + 2] - 1)
            - 1
            for axis in range(len(stride))
        )
        return torch.convolution(g, w, None, stride, padding, dilation, True, extra, groups)

    return Kernel(call=call)


def _weight_gradient(
    shape: tuple[int, ...], window: tuple[tuple[int, ...], ...], groups: int
) -> Kernel:
    stride, padding, dilation = window
    zero = [0] * len(stride)
    backward = torch.ops.aten.convolution_backward.default

    def call(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        weight = x.new_empty(()).expand(shape)  # only its shape counts
        gradients = backward(
            g, x, weight, None, stride, padding, dilation, False, zero, groups,
            [False, True, False],
        )  # fmt: skip
        result: torch.Tensor = gradients[1]
        return result

    return Kernel(call=call)


def _bias_add(node: Node, types: Sequence[TensorType]) -> Kernel:
    shape = [1] * len(types[0].shape)
    shape[integer(node, "dim")] = -1

    def into(out: torch.Tensor, x: torch.Tensor, bias: torch.Tensor) -> None:
        torch.add(x, bias.reshape(shape), out=out)

    return Kernel(call=lambda x, bias: x + bias.reshape(shape), into=into)


def _bias_add_grad(node: Node, types: Sequence[TensorType]) -> Kernel:
    axes = tuple(axis for axis in range(len(types[0].shape)) if axis != integer(node, "dim"))

    def into(out: torch.Tensor, dy: torch.Tensor) -> None:
        torch.sum(dy, axes, out=out)

    return Kernel(call=lambda dy: dy.sum(axes), into=into)


def _pool(node: Node, types: Sequence[TensorType]) -> Kernel:
    is_gradient = flag(node, "gradient")
    small = types[1].shape if is_gradient else node.types[0].shape
    window = pooling_window(node, types[0].shape[2:], small[2:])
    is_maximum = text(node, "pool_type") == "MAX"
    if is_gradient:
        return _max_pool_grad(window) if is_maximum else _average_pool_grad(window)
    return _max_pool(window) if is_maximum else _average_pool(window)


def _max_pool(window: Window) -> Kernel:
    forward = torch.ops.aten.max_pool3d_with_indices.default
    options = _options(window)
    return Kernel(call=lambda x, _: forward(x, *options)[0])


def _max_pool_grad(window: Window) -> Kernel:
    forward = torch.ops.aten.max_pool3d_with_indices.default
    backward = torch.ops.aten.max_pool3d_with_indices_backward.default
    options = _options(window)

    def call(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        _, chosen = forward(x, *options)
        result: torch.Tensor = backward(dy, x, *options, chosen)
        return result

    return Kernel(call=call)


def _options(window: Window) -> tuple[object, ...]:
    return (
        list(window.kernel),
        list(window.stride),
        list(window.padding),
        list(window.dilation),
        window.rounds_up,
    )


def _average_pool(window: Window) -> Kernel:
    forward = torch.nn.functional.avg_pool3d
    kernel, stride, padding = window.kernel, window.stride, window.padding
    return Kernel(call=lambda x, _: forward(x, kernel, stride, padding, window.rounds_up))


def _average_pool_grad(window: Window) -> Kernel:
    backward = torch.ops.aten.avg_pool3d_backward.default
    kernel, stride = list(window.kernel), list(window.stride)
    padding, rounds_up = list(window.padding), window.rounds_up
    return Kernel(
        call=lambda x, dy: backward(dy, x, kernel, stride, padding, rounds_up, True, None)
    )


BUILDERS: Builders = {
    "BiasAdd": _bias_add,
    "BiasAddGrad": _bias_add_grad,
    "Convolution": _convolution,
    "Pool": _pool,
}
