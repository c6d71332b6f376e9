"""Routed experts, in both of the client's ways: a mask for each expert, and chosen matrices."""

from __future__ import annotations

import cerebras.pytorch as cstorch
import torch
import torch.nn.functional as F
from torch import nn

EXPERTS, CHOSEN = 4, 2
FUNCTIONS = cstorch.nn.functional


class Router(nn.Module):
    """Weights and numbers of the experts that each token goes to."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, EXPERTS, bias=False)

    def forward(self, x):
        weights, chosen = F.softmax(self.gate(x).float(), dim=-1).topk(CHOSEN)
        return weights / weights.sum(-1, keepdim=True), chosen


class MaskedExperts(nn.Module):
    """A pair of layers for each expert, which computes the tokens of its mask."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.route = Router(width)
        self.up = nn.ParameterList(_matrix(4 * width, width) for _ in range(EXPERTS))
        self.down = nn.ParameterList(_matrix(width, 4 * width) for _ in range(EXPERTS))

    def forward(self, x):
        weights, chosen = self.route(x)
        marks = FUNCTIONS.one_hot(chosen.to(torch.int64), EXPERTS).to(weights.dtype)
        shares = (marks * weights[..., None]).sum(-2)
        masks = marks.sum(-2).to(torch.int16)
        total = torch.zeros_like(x)
        for k, (up, down) in enumerate(zip(self.up, self.down, strict=True)):
            mask = masks[..., k]
            y = FUNCTIONS.sparse_act_matmul(x, mask, up.to(x.dtype))
            y = FUNCTIONS.sparse_act_matmul(F.gelu(y), mask, down.to(x.dtype))
            total = total + y * shares[..., k : k + 1].to(x.dtype)
        return total


class ChosenExperts(nn.Module):
    """One tensor with the layers of all experts."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.route = Router(width)
        self.up = _matrix(4 * width, EXPERTS, width)
        self.down = _matrix(width, EXPERTS, 4 * width)

    def forward(self, x):
        weights, chosen = self.route(x)
        spread = x[:, :, None, :].expand(-1, -1, CHOSEN, -1)
        y = FUNCTIONS.sparse_matmul(spread, chosen.long(), self.up.to(x.dtype))
        y = FUNCTIONS.sparse_matmul(F.gelu(y), chosen.long(), self.down.to(x.dtype))
        return (y * weights[..., None].to(x.dtype)).sum(-2)


def _matrix(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape) * shape[-1] ** -0.5)
