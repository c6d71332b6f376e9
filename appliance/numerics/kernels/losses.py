"""Losses that return their own gradient."""

from collections.abc import Sequence

import torch

from appliance.core.attributes import integer, resolve_axis
from appliance.core.graph import Node
from appliance.core.tensors import TensorType
from appliance.numerics.kernels.kernel import Builders, Kernel


def _sparse_softmax_cross_entropy(node: Node, types: Sequence[TensorType]) -> Kernel:
    rank = len(types[0].shape)
    axis = resolve_axis(integer(node, "axis", -1), rank)

    def call(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = labels.unsqueeze(axis).long()
        log_probabilities = torch.log_softmax(logits, axis)
        loss = log_probabilities.gather(axis, chosen).squeeze(axis).neg_()
        gradient = log_probabilities.exp_()
        gradient.scatter_add_(axis, chosen, gradient.new_full((), -1.0).expand(chosen.shape))
        return loss, gradient

    return Kernel(call=call)


def _softmax_cross_entropy(node: Node, types: Sequence[TensorType]) -> Kernel:
    axis = resolve_axis(integer(node, "axis", -1), len(types[0].shape))

    def call(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        log_probabilities = torch.log_softmax(logits, axis)
        loss = -(labels * log_probabilities).sum(axis)
        gradient = log_probabilities.exp() - labels
        return loss, gradient

    return Kernel(call=call)


BUILDERS: Builders = {
    "SoftmaxCrossEntropyWithLogits": _softmax_cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": _sparse_softmax_cross_entropy,
}
