"""Samples of operations that work element by element."""

# ruff: noqa: PLW0108 - mixed precision replaces functions, so they are looked up when called

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from catalog.probes import bits, index, normal, op

ONE = {"other": normal(8)}


def positive(x):
    """Map values to (0.5, 1.5), inside the domain of logarithms and roots."""
    return torch.sigmoid(x) + 0.5


ACTIVATIONS = {
    "tanh": op(lambda x: torch.tanh(x)),
    "sigmoid": op(lambda x: torch.sigmoid(x)),
    "relu": op(lambda x: torch.relu(x)),
    "relu6": op(lambda x: F.relu6(x)),
    "leaky_relu": op(lambda x: F.leaky_relu(x, 0.125)),
    "elu": op(lambda x: F.elu(x, 0.5)),
    "selu": op(lambda x: F.selu(x)),
    "celu": op(lambda x: F.celu(x, 0.5)),
    "hardsigmoid": op(lambda x: F.hardsigmoid(x * 4)),
    "hardswish": op(lambda x: F.hardswish(x * 4)),
    "hardtanh": op(lambda x: F.hardtanh(x, -0.25, 0.5)),
    "softplus": op(lambda x: F.softplus(x)),
    "softplus_beta": op(lambda x: F.softplus(x * 8, beta=2, threshold=4)),
    "softsign": op(lambda x: F.softsign(x)),
    "silu": op(lambda x: F.silu(x)),
    "gelu_none": op(lambda x: F.gelu(x)),
    "gelu_tanh": op(lambda x: F.gelu(x, approximate="tanh")),
    "mish": op(lambda x: F.mish(x)),
    "logsigmoid": op(lambda x: F.logsigmoid(x)),
    "tanhshrink": op(lambda x: F.tanhshrink(x)),
    "hardshrink": op(lambda x: F.hardshrink(x, 0.25)),
    "softshrink": op(lambda x: F.softshrink(x, 0.25)),
    "threshold": op(lambda x: F.threshold(x, 0.25, 0.5)),
    "glu": op(lambda x: F.glu(x)),
    "prelu": op(lambda m, x: m(x), make=nn.PReLU),
    "prelu_per_channel": op(lambda m, x: m(x), make=lambda: nn.PReLU(8)),
    "softmax": op(lambda x: F.softmax(x, dim=-1)),
    "softmax_inner_axis": op(lambda x: F.softmax(x, dim=1), shape=(4, 3)),
    "softmax_f32": op(lambda x: F.softmax(x.float(), dim=-1)),
    "log_softmax": op(lambda x: F.log_softmax(x, dim=-1)),
    "softmin": op(lambda x: F.softmin(x, dim=-1)),
}

UNARY = {
    "log": op(lambda x: torch.log(positive(x))),
    "log1p": op(lambda x: torch.log1p(positive(x))),
    "log2": op(lambda x: torch.log2(positive(x)), tolerance=1e-4),
    "log10": op(lambda x: torch.log10(positive(x)), tolerance=1e-3),
    "exp": op(lambda x: torch.exp(x)),
    "expm1": op(lambda x: torch.expm1(x)),
    "exp2": op(lambda x: torch.exp2(x)),
    "erf": op(lambda x: torch.erf(x), tolerance=1e-3),
    "erfc": op(lambda x: torch.erfc(x)),
    "pow_scalar": op(lambda x: torch.pow(positive(x), 2.5)),
    "pow_integer": op(lambda x: x**3),
    "pow_of_scalar": op(lambda x: torch.pow(2.0, x)),
    "square": op(lambda x: torch.square(x)),
    "sqrt": op(lambda x: torch.sqrt(positive(x))),
    "rsqrt": op(lambda x: torch.rsqrt(positive(x))),
    "reciprocal": op(lambda x: torch.reciprocal(positive(x))),
    "neg": op(lambda x: torch.neg(x)),
    "abs": op(lambda x: torch.abs(x)),
    "sign": op(lambda x: x + torch.sign(x)),
    "floor": op(lambda x: x + torch.floor(x * 4)),
    "ceil": op(lambda x: x + torch.ceil(x * 4)),
    "round": op(lambda x: x + torch.round(x * 4)),
    "trunc": op(lambda x: x + torch.trunc(x * 4)),
    "frac": op(lambda x: torch.frac(x * 4)),
    "sin": op(lambda x: torch.sin(x)),
    "cos": op(lambda x: torch.cos(x)),
    "tan": op(lambda x: torch.tan(x)),
    "asin": op(lambda x: torch.asin(torch.tanh(x) * 0.5), tolerance=1e-2),
    "acos": op(lambda x: torch.acos(torch.tanh(x) * 0.5), tolerance=1e-3),
    "atan": op(lambda x: torch.atan(x)),
    "sinh": op(lambda x: torch.sinh(x)),
    "cosh": op(lambda x: torch.cosh(x)),
    "asinh": op(lambda x: torch.asinh(x)),
    "acosh": op(lambda x: torch.acosh(positive(x) + 1)),
    "atanh": op(lambda x: torch.atanh(torch.tanh(x) * 0.5)),
    "logit": op(lambda x: torch.logit(positive(x) * 0.5)),
    "nan_to_num": op(lambda x: torch.nan_to_num(x)),
    "isnan": op(lambda x: torch.where(torch.isnan(x), torch.zeros_like(x), x)),
    "isinf": op(lambda x: torch.where(torch.isinf(x), torch.zeros_like(x), x)),
    "isfinite": op(lambda x: torch.where(torch.isfinite(x), x, torch.zeros_like(x))),
    "clamp": op(lambda x: torch.clamp(x, -0.25, 0.5)),
    "clamp_min": op(lambda x: torch.clamp(x, min=-0.25)),
    "clamp_max": op(lambda x: torch.clamp(x, max=0.5)),
    "ones_zeros_full_like": op(
        lambda x: x * torch.full_like(x, 2) + torch.ones_like(x) - torch.zeros_like(x)
    ),
    "detach": op(lambda x: x * x.detach()),
    "cast_to_int": op(lambda x: x * (x * 4).int().float()),
    "cast_to_bool": op(lambda x: x * (x > 0).to(torch.bool).float()),
}

BINARY = {
    "add_scalar": op(lambda x: x + 2),
    "add_alpha": op(lambda x, other: torch.add(x, other, alpha=0.5), fields=ONE),
    "sub_alpha": op(lambda x, other: torch.sub(x, other, alpha=0.5), fields=ONE),
    "rsub": op(lambda x: 1 - x),
    "mul_broadcast": op(lambda x, other: x * other[:, :1], fields=ONE),
    "div": op(lambda x, other: x / (other.abs() + 1), fields=ONE),
    "div_scalar_by": op(lambda x: 2.0 / positive(x)),
    "div_floor": op(
        lambda x, other: x + torch.div(x * 4, other, rounding_mode="floor"), fields=ONE
    ),
    "div_trunc": op(
        lambda x, other: x + torch.div(x * 4, other, rounding_mode="trunc"), fields=ONE
    ),
    "floor_divide_int": op(lambda x, a: x * (a // 3).float(), fields={"a": index(8, high=17)}),
    "remainder": op(lambda x: torch.remainder(x * 4, 0.75)),
    "remainder_int": op(lambda x, a: x * (a % 3).float(), fields={"a": index(8, high=17)}),
    "fmod": op(lambda x: torch.fmod(x * 4, 0.75)),
    "pow_tensor": op(lambda x, other: torch.pow(positive(x), other), fields=ONE),
    "atan2": op(lambda x, other: torch.atan2(x, other), fields=ONE),
    "minimum": op(lambda x, other: torch.minimum(x, other), fields=ONE),
    "maximum": op(lambda x, other: torch.maximum(x, other), fields=ONE),
    "clamp_tensor": op(lambda x, other: torch.clamp(x, -other.abs(), other.abs()), fields=ONE),
    "lerp": op(lambda x, other: torch.lerp(x, other.to(x.dtype), 0.25), fields=ONE),
    "addcmul": op(lambda x, other: torch.addcmul(other.to(x.dtype), x, x, value=0.5), fields=ONE),
    "addcdiv": op(
        lambda x, other: torch.addcdiv(other.to(x.dtype), x, positive(x), value=0.5), fields=ONE
    ),
    "copysign": op(lambda x, other: torch.copysign(x, other.to(x.dtype)), fields=ONE),
    "hypot": op(lambda x, other: torch.hypot(x, other.to(x.dtype)), fields=ONE),
    "logaddexp": op(lambda x, other: torch.logaddexp(x, other.to(x.dtype)), fields=ONE),
    "xlogy": op(lambda x, other: torch.xlogy(other.to(x.dtype), positive(x)), fields=ONE),
}

TWO_BITS = {"a": bits(8), "b": bits(8)}
TWO_INTS = {"a": index(8, high=16), "b": index(8, high=16)}

LOGIC = {
    "compare": op(
        lambda x, other: sum(
            (k + 1) * x * compare(x, other).to(x.dtype)
            for k, compare in enumerate(
                (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
            )
        ),
        fields=ONE,
    ),
    "compare_scalar": op(lambda x: x * (x > 0.25) + (x <= -0.25).to(x.dtype)),
    "compare_int": op(lambda x, a, b: x * ((a == b) | (a < b - 3)).to(x.dtype), fields=TWO_INTS),
    "where": op(lambda x, other: torch.where(other > 0, x, x * 2), fields=ONE),
    "where_scalar": op(lambda x, a: torch.where(a, x, 0.0), fields={"a": bits(8)}),
    "masked_fill": op(lambda x, a: x.masked_fill(a, -2.0), fields={"a": bits(8)}),
    "logical_and": op(lambda x, a, b: x * torch.logical_and(a, b).to(x.dtype), fields=TWO_BITS),
    "logical_or": op(lambda x, a, b: x * torch.logical_or(a, b).to(x.dtype), fields=TWO_BITS),
    "logical_xor": op(lambda x, a, b: x * torch.logical_xor(a, b).to(x.dtype), fields=TWO_BITS),
    "logical_not": op(lambda x, a: x * torch.logical_not(a).to(x.dtype), fields={"a": bits(8)}),
    "bool_operators": op(lambda x, a, b: x * ((a & ~b) | (a ^ b)).to(x.dtype), fields=TWO_BITS),
    "int_bitwise": op(lambda x, a, b: x * ((a & b) + (a | b) + (a ^ b)).float(), fields=TWO_INTS),
    "int_arithmetic": op(lambda x, a, b: x * (a * 2 - b + 3).float() * 0.125, fields=TWO_INTS),
    "int_shift": op(
        lambda x, a: x * ((a << 1) + (a >> 1)).float(), fields={"a": index(8, high=16)}
    ),
    "bool_input": op(lambda x, a: x + a, fields={"a": bits(8)}),
}

POINTWISE = ACTIVATIONS | UNARY | BINARY | LOGIC
