"""Operations on each element by itself: the formulas."""

import math
from collections.abc import Callable

import numpy as np

from appliance.core.ir.attributes import number, text
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType
from appliance.numerics.reference.definition import Array, Definition, formula

_SQRT_2 = math.sqrt(2.0)
_SQRT_2_PI = math.sqrt(2.0 * math.pi)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)

_error_function: Callable[[Array], Array] = np.vectorize(math.erf, otypes=[np.float64])


def _sign(x: Array) -> Array:
    """1, -1, or 0 for zero and NaN."""
    return np.subtract(x > 0, x < 0, dtype=x.dtype)


def _sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x)."""
    return 1.0 / (1.0 + np.exp(-x))


def _hard_sigmoid(x: Array) -> Array:
    """A straight line from 0 at -3 to 1 at 3. Source: torch.nn.functional.hardsigmoid."""
    return np.minimum(np.maximum(x + 3.0, 0.0), 6.0) / 6.0


def _hard_sigmoid_grad(dy: Array, x: Array) -> Array:
    return np.where((x > -3.0) & (x < 3.0), dy / 6.0, 0.0)


def softplus(node: Node, x: Array) -> Array:
    """log(1 + e^(beta x)) / beta; x itself where beta x exceeds the threshold."""
    beta, threshold = number(node, "beta"), number(node, "threshold")
    return np.where(beta * x > threshold, x, np.log1p(np.exp(beta * x)) / beta)


def elu(node: Node, x: Array) -> Array:
    """X where positive, else alpha (e^x - 1).

    Source: Clevert et al., Fast and accurate deep network learning by ELUs, 2015.
    """
    return np.where(x > 0, x, number(node, "alpha") * np.expm1(x))


def elu_grad(node: Node, dy: Array, x: Array) -> Array:
    """Gradient of `elu` given its input."""
    return np.where(x > 0, dy, dy * number(node, "alpha") * np.exp(x))


def leaky_relu(node: Node, x: Array) -> Array:
    """X where positive, else alpha x."""
    return np.where(x > 0, x, number(node, "alpha") * x)


def leaky_relu_grad(node: Node, dy: Array, x: Array) -> Array:
    """Gradient of `leaky_relu` given its input."""
    return np.where(x > 0, dy, number(node, "alpha") * dy)


def gelu(node: Node, x: Array) -> Array:
    """X times the normal distribution function of x, or its approximation by tanh.

    Source: Hendrycks, Gimpel, Gaussian error linear units, 2016, section 2, arXiv:1606.08415.
    """
    if text(node, "approximation") == "TANH":
        return 0.5 * x * (1.0 + np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + _error_function(x / _SQRT_2))


def gelu_grad(node: Node, dy: Array, x: Array) -> Array:
    """Gradient of `gelu` given its input, by the product rule."""
    if text(node, "approximation") == "TANH":
        tanh = np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x**3))
        inner = _SQRT_2_OVER_PI * (1.0 + 3.0 * 0.044715 * x**2)
        return dy * (0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh**2) * inner)
    density = np.exp(-0.5 * x**2) / _SQRT_2_PI
    return dy * (0.5 * (1.0 + _error_function(x / _SQRT_2)) + x * density)


def divide(_node: Node, a: Array, b: Array) -> Array:
    """Quotient; of integers rounded down, and an error if a divisor is zero.

    The client writes integer division only for `floor_divide` and `remainder`.
    """
    if np.issubdtype(a.dtype, np.floating):
        return a / b
    if not np.all(b):
        raise ValueError("integer division by zero")
    return a // b


def power(_node: Node, a: Array, b: Array) -> Array:
    """A to the b; of integers with a negative exponent 1 over a power, cut to an integer."""
    if np.issubdtype(a.dtype, np.floating):
        return np.power(a, b)
    whole = np.power(a, np.maximum(b, 0))
    parity = np.where(b % 2 == 0, 1, -1).astype(a.dtype)
    return np.where(b >= 0, whole, np.where(a == 1, 1, np.where(a == -1, parity, 0)))


def compare(node: Node, a: Array, b: Array) -> Array:
    """Truth of a comparison; with NaN only NE holds."""
    operators: dict[str, Callable[[Array, Array], Array]] = {
        "EQ": np.equal,
        "NE": np.not_equal,
        "LT": np.less,
        "LE": np.less_equal,
        "GT": np.greater,
        "GE": np.greater_equal,
    }
    return operators[text(node, "comparison_direction")](a, b)


def select(_node: Node, condition: Array, a: Array, b: Array) -> Array:
    """A where the condition holds, b elsewhere."""
    return np.where(condition, a, b)


def clamp(_node: Node, x: Array, low: Array, high: Array) -> Array:
    """min(max(x, low), high); NaN stays NaN."""
    return np.minimum(np.maximum(x, low), high)


def cast(node: Node, x: Array) -> Array:
    """The same number in another type: floats to integers toward zero, to i1 by x != 0."""
    target = node.types[0].dtype
    if target == DType.I1:
        return np.not_equal(x, 0)
    if target.is_float:
        return x.astype(np.float64)
    return (np.trunc(x) if np.issubdtype(x.dtype, np.floating) else x).astype(target.container)


def extend_sign(node: Node, x: Array) -> Array:
    """The same signed integer in a wider type; true is -1."""
    wide = x.astype(node.types[0].dtype.container)
    return -wide if x.dtype == np.bool_ else wide


def extend_zero(node: Node, x: Array) -> Array:
    """The bit pattern read as unsigned, in a wider type; true is 1."""
    if x.dtype == np.bool_:
        return x.astype(node.types[0].dtype.container)
    unsigned = x.view(np.dtype(f"u{x.dtype.itemsize}"))
    return unsigned.astype(node.types[0].dtype.container)


DEFINITIONS: dict[str, Definition] = {
    "Abs": formula(np.abs),
    "Add": formula(np.add),
    "And": formula(np.bitwise_and),
    "Atan2": formula(np.arctan2),
    "Cast": cast,
    "Ceil": formula(np.ceil),
    "Clamp": clamp,
    "Compare": compare,
    "Cos": formula(np.cos),
    "Div": divide,
    "Elu": elu,
    "EluGrad": elu_grad,
    "Erf": formula(_error_function),
    "Exp": formula(np.exp),
    "ExtSI": extend_sign,
    "ExtUI": extend_zero,
    "Floor": formula(np.floor),
    "Gelu": gelu,
    "GeluGrad": gelu_grad,
    "HardSigmoid": formula(_hard_sigmoid),
    "HardSigmoidGrad": formula(_hard_sigmoid_grad),
    "LeakyRelu": leaky_relu,
    "LeakyReluGrad": leaky_relu_grad,
    "Log": formula(np.log),
    "Mul": formula(np.multiply),
    "Not": formula(np.invert),
    "Or": formula(np.bitwise_or),
    "Pow": power,
    "Reciprocal": formula(lambda x: 1.0 / x),
    "Relu": formula(lambda x: np.maximum(x, 0)),
    "ReluGrad": formula(lambda dy, y: np.where(y > 0, dy, 0.0)),
    "Round": formula(np.rint),
    "Rsqrt": formula(lambda x: 1.0 / np.sqrt(x)),
    "Select": select,
    "Sigmoid": formula(_sigmoid),
    "SigmoidGrad": formula(lambda y, dy: dy * y * (1.0 - y)),
    "Sign": formula(_sign),
    "Sin": formula(np.sin),
    "Softplus": softplus,
    "Sqrt": formula(np.sqrt),
    "Sub": formula(np.subtract),
    "Tanh": formula(np.tanh),
    "Xor": formula(np.bitwise_xor),
    "wsc.Copy": formula(np.copy),
    "wsc.Sum": formula(np.copy),
}
