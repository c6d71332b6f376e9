"""Convolution, pooling and their gradients.

A Convolution node is one of three products of the same trilinear form in input x, weight w and
output gradient g: the convolution of x and w; its adjoint in x (`transposed`); its adjoint in w
(`BWD_KERNEL`). So the pass directions FWD and BWD_INPUT need no telling apart: the gradient of a
convolution is a transposed convolution and the other way round.
"""

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from appliance.core.ir.attributes import flag, integer, integers, text
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.kernels.kernel import Builders, Kernel
from appliance.numerics.windows import Window, pooling_window

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _convolution(node: Node, _types: Sequence[TensorType]) -> Kernel:
    if text(node, "conv_pass_direction") == "BWD_KERNEL":
        return Kernel(call=_weight_gradient(node, node.types[0].shape))
    if flag(node, "transposed"):
        return Kernel(call=_transposed(node, node.types[0].shape))
    return Kernel(call=_plain(node))


def _plain(node: Node) -> Product:
    stride, padding, dilation = _window(node)
    zero, groups = (0,) * len(stride), integer(node, "groups", 1)
    return lambda x, w: torch.convolution(
        x, w, None, stride, padding, dilation, False, zero, groups
    )


def _window(node: Node) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return integers(node, "stride"), integers(node, "padding"), integers(node, "dilation")


def _transposed(node: Node, shape: tuple[int, ...]) -> Product:
    """Return the transposed convolution; only the result's shape tells its output padding."""
    stride, padding, dilation = _window(node)
    groups = integer(node, "groups", 1)

    def call(g: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        extra = [
            result - ((size - 1) * step - 2 * edge + spread * (kernel - 1) + 1)
            for result, size, kernel, step, edge, spread in zip(
                shape[2:], g.shape[2:], w.shape[2:], stride, padding, dilation, strict=True
            )
        ]
        return torch.convolution(g, w, None, stride, padding, dilation, True, extra, groups)

    return call


def _weight_gradient(node: Node, shape: tuple[int, ...]) -> Product:
    stride, padding, dilation = _window(node)
    zero, groups = [0] * len(stride), integer(node, "groups", 1)
    backward = torch.ops.aten.convolution_backward.default
    mask = [False, True, False]

    def call(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        weight = x.new_empty(1).expand(shape)  # only its shape counts
        gradients = backward(
            g, x, weight, None, stride, padding, dilation, False, zero, groups, mask
        )
        result: torch.Tensor = gradients[1]
        return result

    return call


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
    """Return a pooling kernel; a padding that differs from side to side is added beforehand."""
    is_gradient, is_maximum = flag(node, "gradient"), text(node, "pool_type") == "MAX"
    if flag(node, "adaptive"):
        return Kernel(call=_adaptive_mean(node.types[0].shape[2:], is_gradient=is_gradient))
    window = pooling_window(node, types[0].shape, types[1].shape)
    if is_gradient:
        call = _max_pool_grad(window) if is_maximum else _average_pool_grad(window)
    else:
        call = _max_pool(window) if is_maximum else _average_pool(window)
    return Kernel(call=_with_edges(call, window, is_gradient, -torch.inf if is_maximum else 0.0))


def _adaptive_mean(sizes: tuple[int, ...], *, is_gradient: bool) -> Product:
    forward = torch.ops.aten._adaptive_avg_pool3d.default
    backward = torch.ops.aten._adaptive_avg_pool3d_backward.default
    if is_gradient:
        return lambda x, dy: backward(dy, x)
    return lambda x, _: forward(x, sizes)


def _with_edges(call: Product, window: Window, is_gradient: bool, fill: float) -> Product:
    edges = [size for pair in reversed(window.edges) for size in pair]
    if not any(edges):
        return call
    if not is_gradient:
        return lambda x, y: call(functional.pad(x, edges, value=fill), y)
    crop = [-size for size in edges]
    return lambda x, dy: functional.pad(call(functional.pad(x, edges, value=fill), dy), crop)


def _max_pool(window: Window) -> Product:
    forward = torch.ops.aten.max_pool3d_with_indices.default
    options = _options(window)
    return lambda x, _: forward(x, *options)[0]


def _max_pool_grad(window: Window) -> Product:
    forward = torch.ops.aten.max_pool3d_with_indices.default
    backward = torch.ops.aten.max_pool3d_with_indices_backward.default
    options = _options(window)

    def call(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        _, chosen = forward(x, *options)
        result: torch.Tensor = backward(dy, x, *options, chosen)
        return result

    return call


def _options(window: Window) -> tuple[object, ...]:
    return (
        list(window.kernel),
        list(window.stride),
        list(window.padding),
        list(window.dilation),
        window.rounds_up,
    )


def _average_pool(window: Window) -> Product:
    forward = torch.nn.functional.avg_pool3d
    kernel, stride, padding = window.kernel, window.stride, window.padding
    return lambda x, _: forward(x, kernel, stride, padding, window.rounds_up)


def _average_pool_grad(window: Window) -> Product:
    backward = torch.ops.aten.avg_pool3d_backward.default
    kernel, stride = list(window.kernel), list(window.stride)
    padding, rounds_up = list(window.padding), window.rounds_up
    return lambda x, dy: backward(dy, x, kernel, stride, padding, rounds_up, True, None)


BUILDERS: Builders = {
    "BiasAdd": _bias_add,
    "BiasAddGrad": _bias_add_grad,
    "Convolution": _convolution,
    "Pool": _pool,
}
