"""Normalisation layers and their gradients."""

import math
from collections.abc import Callable, Sequence

import torch

from appliance.core.ir.attributes import flag, integer, number
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.kernels.kernel import Builders, Kernel, Values
from appliance.numerics.onednn.normalization import find_layer_norm

DEFAULT_EPSILON = 1e-5
"""GroupNormGrad does not carry the epsilon of its GroupNorm; this is the framework's default."""


def _layer_norm(node: Node, types: Sequence[TensorType]) -> Kernel:
    epsilon, shape, library = number(node, "epsilon"), types[2].shape, find_layer_norm()

    def call(x: torch.Tensor, beta: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.shape, dtype=x.dtype)
        into(out, x, beta, gamma)
        return out

    def into(out: torch.Tensor, x: torch.Tensor, beta: torch.Tensor, gamma: torch.Tensor) -> None:
        if not out.is_contiguous():
            out.copy_(call(x, beta, gamma))
            return
        rows, parameters = x.contiguous(), (gamma.contiguous(), beta.contiguous())
        if library is None or not library.try_forward(out, rows, *parameters, epsilon=epsilon):
            out.copy_(torch.layer_norm(rows, shape, *parameters, epsilon, False))

    return Kernel(call=call, into=into)


def _layer_norm_grad(node: Node, types: Sequence[TensorType]) -> Kernel:
    epsilon, library = number(node, "epsilon"), find_layer_norm()
    by_torch = _layer_norm_grad_by_torch(epsilon, list(types[3].shape))

    def call(*operands: torch.Tensor) -> Values:
        _, x, beta, gamma = operands
        dx, dbeta, dgamma = (torch.empty(each.shape, dtype=x.dtype) for each in (x, beta, gamma))
        fill((dx, dbeta, dgamma), operands)
        return dx, dbeta, dgamma

    def fill(outs: Sequence[torch.Tensor], operands: Sequence[torch.Tensor]) -> None:
        if not all(out.is_contiguous() for out in outs):
            for out, value in zip(outs, call(*operands), strict=True):
                out.copy_(value)
            return
        dx, dbeta, dgamma = outs
        dy, x, beta, gamma = (operand.contiguous() for operand in operands)
        gradients, given = (dx, dgamma, dbeta), (dy, x, gamma, beta)
        if library is None or not library.try_backward(gradients, *given, epsilon=epsilon):
            for out, value in zip(gradients, by_torch(*given), strict=True):
                out.copy_(value)

    return Kernel(call=call, fill=fill)


def _layer_norm_grad_by_torch(
    epsilon: float, shape: list[int]
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Return a function of dy, x, gamma and beta that gives the gradients of the last three."""
    forward = torch.ops.aten.native_layer_norm.default
    backward = torch.ops.aten.native_layer_norm_backward.default

    def call(
        dy: torch.Tensor, x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        _, mean, rstd = forward(x, shape, None, None, epsilon)
        found: tuple[torch.Tensor, ...] = backward(
            dy, x, shape, mean, rstd, gamma, beta, [True, True, True]
        )
        return found

    return call


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
