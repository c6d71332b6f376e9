"""Normalisation layers: statistics, normalised values, gradients.

Every gradient has the same shape. With x^ = (x - mean) / sqrt(var + epsilon), g = dy * scale and
means over the elements that share statistics:

    dx = (g - mean(g) - x^ mean(g x^)) / sqrt(var + epsilon)
    dscale = sum(dy x^),  doffset = sum(dy)

Source: Ioffe, Szegedy, Batch normalization, 2015, section 3 (chain rule, simplified); Ba, Kiros,
Hinton, Layer normalization, 2016; Wu, He, Group normalization, 2018.
"""

import numpy as np

from appliance.core.ir.attributes import flag, integer, number
from appliance.core.ir.graph import Node
from appliance.numerics.reference.definition import Array, Definition

Axes = tuple[int, ...]


def _normalised(x: Array, axes: Axes, epsilon: float) -> tuple[Array, Array]:
    """Return x^ and 1 / sqrt(var + epsilon)."""
    centred = x - np.mean(x, axis=axes, keepdims=True)
    inverse = 1.0 / np.sqrt(np.mean(centred**2, axis=axes, keepdims=True) + epsilon)
    return centred * inverse, inverse


def _input_gradient(g: Array, x: Array, axes: Axes, epsilon: float) -> Array:
    normalised, inverse = _normalised(x, axes, epsilon)
    mean = np.mean(g, axis=axes, keepdims=True)
    slope = np.mean(g * normalised, axis=axes, keepdims=True)
    result: Array = (g - mean - normalised * slope) * inverse
    return result


def layer_norm(node: Node, x: Array, beta: Array, gamma: Array) -> Array:
    """x^ gamma + beta with statistics over the trailing dims, those of gamma."""
    normalised, _ = _normalised(x, _trailing(x, gamma), number(node, "epsilon"))
    return normalised * gamma + beta


def layer_norm_grad(
    node: Node, dy: Array, x: Array, _beta: Array, gamma: Array
) -> tuple[Array, Array, Array]:
    """Gradients of x, beta and gamma."""
    axes, epsilon = _trailing(x, gamma), number(node, "epsilon")
    leading = tuple(range(x.ndim - gamma.ndim))
    normalised, _ = _normalised(x, axes, epsilon)
    dx = _input_gradient(dy * gamma, x, axes, epsilon)
    return dx, np.sum(dy, axis=leading), np.sum(dy * normalised, axis=leading)


def _trailing(x: Array, gamma: Array) -> Axes:
    return tuple(range(x.ndim - gamma.ndim, x.ndim))


def group_norm(node: Node, x: Array, gamma: Array, beta: Array) -> Array:
    """x^ gamma + beta with statistics over each group of channels of a sample (channels first)."""
    grouped, axes = _grouped(node, x)
    normalised, _ = _normalised(grouped, axes, _group_epsilon(node))
    return normalised.reshape(x.shape) * _per_channel(gamma, x) + _per_channel(beta, x)


def group_norm_grad(
    node: Node, dy: Array, x: Array, gamma: Array | None = None
) -> Array | tuple[Array, Array, Array]:
    """Gradients of x, gamma and beta; of x alone where there is no gamma."""
    grouped, axes = _grouped(node, x)
    epsilon = _group_epsilon(node)
    g = dy if gamma is None else dy * _per_channel(gamma, x)
    dx = _input_gradient(g.reshape(grouped.shape), grouped, axes, epsilon).reshape(x.shape)
    if gamma is None:
        return dx
    normalised = _normalised(grouped, axes, epsilon)[0].reshape(x.shape)
    rest = tuple(axis for axis in range(x.ndim) if axis != 1)
    dgamma, dbeta = np.sum(dy * normalised, axis=rest), np.sum(dy, axis=rest)
    return dx, dgamma.reshape(gamma.shape), dbeta.reshape(gamma.shape)


def _grouped(node: Node, x: Array) -> tuple[Array, Axes]:
    groups = integer(node, "num_groups")
    grouped = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    return grouped, tuple(range(2, grouped.ndim))


def _group_epsilon(node: Node) -> float:
    """Return epsilon; the client's GroupNormGrad has none, so the framework's default counts."""
    return number(node, "epsilon", 1e-5)


def _per_channel(vector: Array, x: Array) -> Array:
    return vector.reshape(1, -1, *[1] * (x.ndim - 2))


def batch_norm(node: Node, x: Array, *vectors: Array) -> tuple[Array, Array, Array]:
    """x^ scale + offset for each channel, and the running statistics blended with the batch's.

    In training the statistics are those of the batch, and the second and third results are
    (1 - factor) old + factor new with the variance over n - 1; else the running statistics are used
    and returned. The vectors are scale, offset, running mean and running variance.
    """
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    scale, offset, mean, variance = vectors
    epsilon, factor = number(node, "epsilon"), number(node, "exponential_avg_factor")
    if flag(node, "is_training"):
        normalised, _ = _normalised(x, axes, epsilon)
        mean = (1 - factor) * mean + factor * np.mean(x, axis=axes)
        deviations = x - np.mean(x, axis=axes, keepdims=True)
        new = np.sum(deviations**2, axis=axes) / np.float64(x.size // x.shape[1] - 1)
        variance = (1 - factor) * variance + factor * new
    else:
        inverse = 1.0 / np.sqrt(variance + epsilon)
        normalised = (x - _per_channel(mean, x)) * _per_channel(inverse, x)
    return normalised * _per_channel(scale, x) + _per_channel(offset, x), mean, variance


def batch_norm_grad(node: Node, dy: Array, x: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Gradients of x, scale and offset in training."""
    axes, epsilon = tuple(axis for axis in range(x.ndim) if axis != 1), number(node, "epsilon")
    dx = _input_gradient(dy * _per_channel(scale, x), x, axes, epsilon)
    normalised, _ = _normalised(x, axes, epsilon)
    return dx, np.sum(dy * normalised, axis=axes), np.sum(dy, axis=axes)


DEFINITIONS: dict[str, Definition] = {
    "FusedBatchNorm": batch_norm,
    "FusedBatchNormGrad": batch_norm_grad,
    "GroupNorm": group_norm,
    "GroupNormGrad": group_norm_grad,
    "LayerNorm": layer_norm,
    "LayerNormGrad": layer_norm_grad,
}
