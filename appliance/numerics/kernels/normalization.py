"""Normalisation layers and their gradients."""

import math
from collections.abc import Sequence

import torch

from appliance.core.attributes import flag, integer, number
from appliance.core.graph import Node
from appliance.core.tensors import TensorType
from appliance.numerics.kernels.kernel import Builders, Kernel, Values

DEFAULT_EPSILON = 1e-5
"""GroupNormGrad does not carry the epsilon of its GroupNorm; this is the framework's default."""

_PART_BYTES = 1 << 16
_MOST_PARTS = 16


def _layer_norm(node: Node, types: Sequence[TensorType]) -> Kernel:
    epsilon, shape = number(node, "epsilon"), types[2].shape

    def call(x: torch.Tensor, beta: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
        return torch.layer_norm(x, shape, gamma, beta, epsilon, False)

    def into(out: torch.Tensor, x: torch.Tensor, *parameters: torch.Tensor) -> None:
        count = _num_parts(x) if x.is_contiguous() and out.is_contiguous() else 1
        if count == 1:
            out.copy_(call(x, *parameters))
            return
        targets, rows = (each.view(-1, *shape).tensor_split(count) for each in (out, x))
        for target, part in zip(targets, rows, strict=True):
            target.copy_(call(part, *parameters))

    return Kernel(call=call, into=into)


def _num_parts(x: torch.Tensor) -> int:
    """Return in how many parts the rows of a tensor are normalized, one after the other.

    Torch normalizes into memory of its own. In the heap small things that last come to lie behind
    it, and its place is not found again: every layer would take another one. So it is kept small.
    """
    if torch.get_num_threads() > 1:
        return 1
    return max(1, min(_MOST_PARTS, x.nbytes // _PART_BYTES))


def _layer_norm_grad(node: Node, types: Sequence[TensorType]) -> Kernel:
    epsilon, shape = number(node, "epsilon"), list(types[3].shape)
    forward = torch.ops.aten.native_layer_norm.default
    backward = torch.ops.aten.native_layer_norm_backward.default
    mask = [True, True, True]

    def call(dy: torch.Tensor, x: torch.Tensor, beta: torch.Tensor, gamma: torch.Tensor) -> Values:
        _, mean, rstd = forward(x, shape, None, None, epsilon)
        dx, dgamma, dbeta = backward(dy, x, shape, mean, rstd, gamma, beta, mask)
        return dx, dbeta, dgamma

    return Kernel(call=call)


def _group_norm(node: Node, _types: Sequence[TensorType]) -> Kernel:
    groups, epsilon = integer(node, "num_groups"), number(node, "epsilon", DEFAULT_EPSILON)

    def call(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        return torch.group_norm(x, groups, gamma.reshape(-1), beta.reshape(-1), epsilon, False)

    return Kernel(call=call)


def _group_norm_grad(node: Node, types: Sequence[TensorType]) -> Kernel:
    groups, epsilon = integer(node, "num_groups"), number(node, "epsilon", DEFAULT_EPSILON)
    batch, channels, *spatial = types[1].shape
    sizes = (batch, channels, math.prod(spatial), groups)
    forward = torch.ops.aten.native_group_norm.default
    backward = torch.ops.aten.native_group_norm_backward.default

    def call(dy: torch.Tensor, x: torch.Tensor, gamma: torch.Tensor | None = None) -> Values:
        x, flat = x.contiguous(), None if gamma is None else gamma.reshape(-1)
        _, mean, rstd = forward(x, None, None, *sizes, epsilon)
        mask = [True, gamma is not None, gamma is not None]
        dx, dgamma, dbeta = backward(dy.contiguous(), x, mean, rstd, flat, *sizes, mask)
        if gamma is None:
            result: torch.Tensor = dx
            return result
        return dx, dgamma.reshape(gamma.shape), dbeta.reshape(gamma.shape)

    return Kernel(call=call)


def _batch_norm(node: Node, types: Sequence[TensorType]) -> Kernel:
    epsilon, factor = number(node, "epsilon"), number(node, "exponential_avg_factor", 1.0)
    forward = torch.ops.aten.native_batch_norm.default
    if not flag(node, "is_training", default=True):

        def infer(
            x: torch.Tensor,
            scale: torch.Tensor,
            offset: torch.Tensor,
            mean: torch.Tensor,
            variance: torch.Tensor,
        ) -> Values:
            y, _, _ = forward(x, scale, offset, mean, variance, False, factor, epsilon)
            return y, mean.clone(), variance.clone()

        return Kernel(call=infer)

    def call(
        x: torch.Tensor,
        scale: torch.Tensor,
        offset: torch.Tensor,
        mean: torch.Tensor,
        variance: torch.Tensor,
    ) -> Values:
        new_mean, new_variance = mean.clone(), variance.clone()
        y, _, _ = forward(x, scale, offset, new_mean, new_variance, True, factor, epsilon)
        return y, new_mean, new_variance

    return Kernel(call=call)


def _batch_norm_grad(node: Node, _types: Sequence[TensorType]) -> Kernel:
    epsilon = number(node, "epsilon")
    forward = torch.ops.aten.native_batch_norm.default
    backward = torch.ops.aten.native_batch_norm_backward.default
    mask = [True, True, True]

    def call(dy: torch.Tensor, x: torch.Tensor, scale: torch.Tensor) -> Values:
        _, mean, rstd = forward(x, None, None, None, None, True, 0.0, epsilon)
        gradients: Values = backward(dy, x, scale, None, None, mean, rstd, True, epsilon, mask)
        return gradients

    return Kernel(call=call)


BUILDERS: Builders = {
    "FusedBatchNorm": _batch_norm,
    "FusedBatchNormGrad": _batch_norm_grad,
    "GroupNorm": _group_norm,
    "GroupNormGrad": _group_norm_grad,
    "LayerNorm": _layer_norm,
    "LayerNormGrad": _layer_norm_grad,
}
