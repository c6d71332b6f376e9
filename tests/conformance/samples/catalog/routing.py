"""Samples of the client's own functions, which the CPU backend computes with PyTorch's."""

from __future__ import annotations

import cerebras.pytorch as cstorch
import torch
from torch import nn

from catalog.probes import index, op

F = cstorch.nn.functional
EXPERTS = 4


class Matrix(nn.Module):
    """A weight for the function to multiply with."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(shape) / 4)


def half(module: Matrix, like: torch.Tensor) -> torch.Tensor:
    """The module's weight in the type of the values."""
    return module.weight.to(like.dtype)


def _masked(module: Matrix, x: torch.Tensor, capacity: int | None = None) -> torch.Tensor:
    return F.sparse_act_matmul(x, (x.sum(-1) > 0).to(torch.int16), half(module, x), capacity)


def _chosen(module: Matrix, x: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """Two experts for each token, never the same one twice, as top-k gives them."""
    chosen = torch.cat((first, EXPERTS - 1 - first), dim=-1)
    return F.sparse_matmul(x, chosen.long(), half(module, x))


def _bias(module: Matrix, x: torch.Tensor) -> torch.Tensor:
    return F.bias_add(x, half(module, x), 1)


def _ranged(module: Matrix, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    within = torch.arange(6, device=x.device, dtype=torch.int32)[None] < counts[:, None]
    y = F.ranged_matmul(half(module, x), x, counts.to(torch.int16))
    return torch.where(within[..., None], y, torch.zeros_like(y))


ROUTING = {
    "sparse_act_matmul": op(_masked, shape=(6, 8), make=lambda: Matrix(5, 8)),
    "sparse_act_matmul_capacity": op(
        lambda m, x: _masked(m, x, 6), shape=(6, 8), make=lambda: Matrix(5, 8)
    ),
    "sparse_matmul": op(
        _chosen,
        shape=(6, 2, 8),
        make=lambda: Matrix(5, EXPERTS, 8),
        fields={"first": index(6, 1, high=EXPERTS)},
    ),
    "client_bias_add": op(_bias, shape=(6, 8), make=lambda: Matrix(6)),
    "client_matmul": op(
        lambda m, x: F.matmul(half(m, x), x.reshape(-1, 8).t()),
        shape=(6, 8),
        make=lambda: Matrix(5, 8),
    ),
    "ranged_matmul": op(
        _ranged, shape=(6, 8), make=lambda: Matrix(5, 8), fields={"counts": index(high=7)}
    ),
    "nth_order_statistic": op(lambda x: x * F.nth_order_statistic(x, 3, 1).to(x.dtype)),
}
