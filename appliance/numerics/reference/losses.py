"""Losses that return their own gradient."""

import numpy as np

from appliance.core.ir.attributes import integer
from appliance.core.ir.graph import Node
from appliance.core.ir.ops import IGNORED_LABEL
from appliance.numerics.reference.definition import Array, Definition


def _log_softmax(logits: Array, axis: int) -> Array:
    shifted = logits - np.max(logits, axis=axis, keepdims=True)
    result: Array = shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    return result


def softmax_cross_entropy(node: Node, logits: Array, labels: Array) -> tuple[Array, Array]:
    """-sum(labels * log softmax(logits)) along `axis`, and softmax - labels.

    The second is the gradient where the labels of a row add up to 1.
    Source: TensorFlow API documentation, SoftmaxCrossEntropyWithLogits.
    """
    axis = integer(node, "axis")
    log_probabilities = _log_softmax(logits, axis)
    return -np.sum(labels * log_probabilities, axis=axis), np.exp(log_probabilities) - labels


def sparse_softmax_cross_entropy(node: Node, logits: Array, labels: Array) -> tuple[Array, Array]:
    """The same with the index of the only class that counts.

    Both results are zero where the label is `IGNORED_LABEL`; another one out of range is an error.
    """
    axis = integer(node, "axis")
    size = logits.shape[axis]
    ignored = labels == IGNORED_LABEL
    outside = ((labels < 0) | (labels >= size)) & ~ignored
    if outside.any():
        raise ValueError(f"label {labels[outside][0]} is out of range for {size} classes")
    used = np.where(ignored, 0, labels).astype(int)
    classes = np.moveaxis(np.broadcast_to(np.arange(size), (*used.shape, size)), -1, axis)
    chosen = (classes == np.expand_dims(used, axis)).astype(np.float64)
    log_probabilities = _log_softmax(logits, axis)
    loss = -np.take_along_axis(log_probabilities, np.expand_dims(used, axis), axis)
    gradient = np.exp(log_probabilities) - chosen
    zero = np.expand_dims(ignored, axis)
    return np.where(ignored, 0.0, np.squeeze(loss, axis)), np.where(zero, 0.0, gradient)


DEFINITIONS: dict[str, Definition] = {
    "SoftmaxCrossEntropyWithLogits": softmax_cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": sparse_softmax_cross_entropy,
}
