"""Losses that return their own gradient."""

from collections.abc import Sequence

import torch

from appliance.core.ir.attributes import integer, resolve_axis
from appliance.core.ir.graph import Node
from appliance.core.ir.ops import IGNORED_LABEL
from appliance.core.ir.tensors import TensorType
from appliance.numerics.kernels.kernel import Builders, Kernel


def _sparse_softmax_cross_entropy(node: Node, types: Sequence[TensorType]) -> Kernel:
    axis = resolve_axis(integer(node, "axis", -1), len(types[0].shape))
    log_softmax = torch.ops.aten._log_softmax.out

    def call(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss, gradient = logits.new_empty(labels.shape), torch.empty_like(logits)
        fill((loss, gradient), (logits, labels))
        return loss, gradient

    def fill(outs: Sequence[torch.Tensor], operands: Sequence[torch.Tensor]) -> None:
        (loss, gradient), (logits, labels) = outs, operands
        chosen = labels.unsqueeze(axis).long()
        ignored = chosen == IGNORED_LABEL
        # What labels say is read here alone: a device would be waited for, and checks them itself.
        is_here = labels.device.type == "cpu"
        has_ignored = not is_here or bool(ignored.any())
        if has_ignored:
            chosen = chosen.masked_fill(ignored, 0)
        if is_here:
            _check_labels(chosen, logits.shape[axis])
        # As large as logits: the largest tensor of most plans is not made twice.
        if gradient.is_contiguous():
            log_softmax(logits, axis, False, out=gradient)
        else:  # PyTorch's own writes other places than the strides say
            torch.sub(logits, logits.logsumexp(axis, keepdim=True), out=gradient)
        torch.neg(gradient.gather(axis, chosen).squeeze(axis), out=loss)
        gradient.exp_()
        gradient.scatter_add_(axis, chosen, gradient.new_full((), -1.0).expand(chosen.shape))
        if has_ignored:
            loss.masked_fill_(ignored.squeeze(axis), 0.0)
            gradient.masked_fill_(ignored, 0.0)

    return Kernel(call=call, fill=fill)


def _check_labels(labels: torch.Tensor, num_classes: int) -> None:
    outside = (labels < 0) | (labels >= num_classes)
    if bool(outside.any()):
        raise ValueError(
            f"label {labels[outside][0].item()} is out of range for {num_classes} classes"
            f" (rows with {IGNORED_LABEL} are left out)"
        )


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
