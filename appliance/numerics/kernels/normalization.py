"""Normalisation layers and their gradients."""

from collections.abc import Sequence

import torch

from appliance.core.graph import Node
from appliance.core.tensors import TensorType
from appliance.numerics.attributes import number
from appliance.numerics.kernels.kernel import Builders, Kernel


def _layer_norm(node: Node, types: Sequence[TensorType]) -> Kernel:
    epsilon, shape = number(node, "epsilon"), types[2].shape
    return Kernel(
        call=lambda x, beta, gamma: torch.layer_norm(x, shape, gamma, beta, epsilon, False)
    )


def _layer_norm_grad(node: Node, types: Sequence[TensorType]) -> Kernel:
    epsilon, shape = number(node, "epsilon"), list(types[3].shape)
    forward = torch.ops.aten.native_layer_norm.default
    backward = torch.ops.aten.native_layer_norm_backward.default
    mask = [True, True, True]

    def call(
        dy: torch.Tensor, x: torch.Tensor, beta: torch.Tensor, gamma: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        _, mean, rstd = forward(x, shape, None, None, epsilon)
        dx, dgamma, dbeta = backward(dy, x, shape, mean, rstd, gamma, beta, mask)
        return dx, dbeta, dgamma

    return Kernel(call=call)


BUILDERS: Builders = {"LayerNorm": _layer_norm, "LayerNormGrad": _layer_norm_grad}
