"""Kernels that treat each element by itself."""

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from appliance.core.errors import InternalError
from appliance.core.ir.attributes import number, text
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.elements import torch_dtype
from appliance.numerics.kernels.kernel import Builders, Kernel, direct, plain

_COMPARISONS: dict[str, Callable[..., torch.Tensor]] = {
    "EQ": torch.eq,
    "NE": torch.ne,
    "GT": torch.gt,
    "GE": torch.ge,
    "LT": torch.lt,
    "LE": torch.le,
}


def _compare(node: Node, types: Sequence[TensorType]) -> Kernel:
    direction = text(node, "comparison_direction")
    if direction not in _COMPARISONS:
        raise InternalError(f"Compare at {node.location}: direction {direction!r} is not known.")
    return direct(_COMPARISONS[direction])(node, types)


def _cast(node: Node, types: Sequence[TensorType]) -> Kernel:
    target = torch_dtype(node.types[0].dtype)
    if torch_dtype(types[0].dtype) == target:
        return Kernel(call=lambda x: x, into=torch.Tensor.copy_)
    return Kernel(call=lambda x: x.to(target), into=torch.Tensor.copy_)


def _extend_sign(node: Node, types: Sequence[TensorType]) -> Kernel:
    target = torch_dtype(node.types[0].dtype)
    if types[0].dtype == DType.I1:
        return Kernel(call=lambda x: x.to(target).neg_())
    return Kernel(call=lambda x: x.to(target, copy=True))


_UNSIGNED = {DType.I8: 0xFF, DType.I16: 0xFFFF, DType.I32: 0xFFFFFFFF}


def _extend_zero(node: Node, types: Sequence[TensorType]) -> Kernel:
    target, mask = torch_dtype(node.types[0].dtype), _UNSIGNED.get(types[0].dtype)
    if mask is None:
        return Kernel(call=lambda x: x.to(target, copy=True))
    return Kernel(call=lambda x: x.to(torch.int64).bitwise_and_(mask).to(target))


def _divide(node: Node, types: Sequence[TensorType]) -> Kernel:
    """Return the kernel of a quotient; of integers it is rounded down, as floor_divide does."""
    if types[0].dtype.is_float:
        return direct(torch.div)(node, types)
    return direct(torch.floor_divide)(node, types)


def _approximate(node: Node) -> str:
    return "tanh" if text(node, "approximation") == "TANH" else "none"


def _gelu(node: Node, _types: Sequence[TensorType]) -> Kernel:
    approximate = _approximate(node)
    return Kernel(call=lambda x: functional.gelu(x, approximate=approximate))


def _gelu_grad(node: Node, _types: Sequence[TensorType]) -> Kernel:
    approximate, backward = _approximate(node), torch.ops.aten.gelu_backward.default
    return Kernel(call=lambda dy, x: backward(dy, x, approximate=approximate))


def _elu(node: Node, _types: Sequence[TensorType]) -> Kernel:
    alpha = number(node, "alpha")
    return Kernel(call=lambda x: functional.elu(x, alpha))


def _elu_grad(node: Node, _types: Sequence[TensorType]) -> Kernel:
    alpha, backward = number(node, "alpha"), torch.ops.aten.elu_backward.default
    return Kernel(call=lambda dy, x: backward(dy, alpha, 1.0, 1.0, False, x))


def _leaky_relu(node: Node, _types: Sequence[TensorType]) -> Kernel:
    alpha = number(node, "alpha")
    return Kernel(call=lambda x: functional.leaky_relu(x, alpha))


def _leaky_relu_grad(node: Node, _types: Sequence[TensorType]) -> Kernel:
    alpha, backward = number(node, "alpha"), torch.ops.aten.leaky_relu_backward.default
    return Kernel(call=lambda dy, x: backward(dy, x, alpha, False))


def _softplus(node: Node, _types: Sequence[TensorType]) -> Kernel:
    beta, threshold = number(node, "beta", 1.0), number(node, "threshold", 20.0)
    return Kernel(call=lambda x: functional.softplus(x, beta, threshold))


def _relu_into(out: torch.Tensor, x: torch.Tensor) -> None:
    torch.clamp_min(x, 0, out=out)  # what torch.relu is, which has no `out`


def _relu_grad_into(out: torch.Tensor, dy: torch.Tensor, y: torch.Tensor) -> None:
    torch.ops.aten.threshold_backward.grad_input(dy, y, 0.0, grad_input=out)


def _relu_grad(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.ops.aten.threshold_backward.default(dy, y, 0.0)
    return result


def _sigmoid_grad(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.ops.aten.sigmoid_backward.default(dy, y)
    return result


BUILDERS: Builders = {
    "Abs": direct(torch.abs),
    "Add": direct(torch.add),
    "And": direct(torch.bitwise_and),
    "Atan2": direct(torch.atan2),
    "Cast": _cast,
    "Ceil": direct(torch.ceil),
    "Clamp": direct(torch.clamp),
    "Compare": _compare,
    "Cos": direct(torch.cos),
    "Div": _divide,
    "Elu": _elu,
    "EluGrad": _elu_grad,
    "Erf": direct(torch.erf),
    "Exp": direct(torch.exp),
    "ExtSI": _extend_sign,
    "ExtUI": _extend_zero,
    "Floor": direct(torch.floor),
    "Gelu": _gelu,
    "GeluGrad": _gelu_grad,
    "HardSigmoid": plain(functional.hardsigmoid),
    "HardSigmoidGrad": plain(torch.ops.aten.hardsigmoid_backward.default),
    "LeakyRelu": _leaky_relu,
    "LeakyReluGrad": _leaky_relu_grad,
    "Log": direct(torch.log),
    "Mul": direct(torch.mul),
    "Not": direct(torch.bitwise_not),
    "Or": direct(torch.bitwise_or),
    "Pow": direct(torch.pow),
    "Reciprocal": direct(torch.reciprocal),
    "Relu": lambda _node, _types: Kernel(call=torch.relu, into=_relu_into),
    "ReluGrad": lambda _node, _types: Kernel(call=_relu_grad, into=_relu_grad_into),
    "Round": direct(torch.round),
    "Rsqrt": direct(torch.rsqrt),
    "Select": direct(torch.where),
    "Sigmoid": direct(torch.sigmoid),
    "SigmoidGrad": plain(_sigmoid_grad),
    "Sign": direct(torch.sign),
    "Sin": direct(torch.sin),
    "Softplus": _softplus,
    "Sqrt": direct(torch.sqrt),
    "Sub": direct(torch.sub),
    "Tanh": direct(torch.tanh),
    "Xor": direct(torch.bitwise_xor),
}
