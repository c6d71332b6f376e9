"""Kernels that treat each element by itself."""

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from appliance.core.graph import Node
from appliance.core.tensors import TensorType
from appliance.numerics.attributes import flag, integers, number, text
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


def _compare(node: Node, _types: Sequence[TensorType]) -> Kernel:
    return Kernel(call=_COMPARISONS[text(node, "comparison_direction")])


def _cast(node: Node, types: Sequence[TensorType]) -> Kernel:
    target = torch_dtype(node.types[0].dtype)
    if torch_dtype(types[0].dtype) == target:
        return Kernel(call=_same, into=torch.Tensor.copy_)
    return Kernel(call=lambda x: x.to(target), into=torch.Tensor.copy_)


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


def _divide(_node: Node, types: Sequence[TensorType]) -> Kernel:
    if types[0].dtype.is_float:
        return direct(torch.div)(_node, types)
    return Kernel(call=lambda x, y: torch.div(x, y, rounding_mode="trunc"))


def _approximate(node: Node) -> str:
    return "tanh" if text(node, "approximation", "NONE") == "TANH" else "none"


def _gelu(node: Node, _types: Sequence[TensorType]) -> Kernel:
    approximate = _approximate(node)
    return Kernel(call=lambda x: functional.gelu(x, approximate=approximate))


def _gelu_grad(node: Node, _types: Sequence[TensorType]) -> Kernel:
    approximate = _approximate(node)
    backward = torch.ops.aten.gelu_backward.default
    return Kernel(call=lambda dy, x: backward(dy, x, approximate=approximate))


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
    "Erf": direct(torch.erf),
    "Exp": direct(torch.exp),
    "Floor": direct(torch.floor),
    "Gelu": _gelu,
    "GeluGrad": _gelu_grad,
    "Log": direct(torch.log),
    "Mul": direct(torch.mul),
    "Not": direct(torch.bitwise_not),
    "Or": direct(torch.bitwise_or),
    "Pow": direct(torch.pow),
    "Reciprocal": direct(torch.reciprocal),
    "Relu": plain(torch.relu),
    "Round": direct(torch.round),
    "Rsqrt": direct(torch.rsqrt),
    "Select": direct(torch.where),
    "Sigmoid": direct(torch.sigmoid),
    "Sign": direct(torch.sign),
    "Sin": direct(torch.sin),
    "Sqrt": direct(torch.sqrt),
    "Sub": direct(torch.sub),
    "Tanh": direct(torch.tanh),
    "Xor": direct(torch.bitwise_xor),
}
