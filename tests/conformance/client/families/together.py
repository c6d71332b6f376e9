"""Several models in one program, each with inputs and a loss of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from data import Field, Samples
from recipes import Recipe
from torch import nn

Batch = Mapping[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Family:
    """One model of a program."""

    build: Callable[[], nn.Module]
    """Make the model, whose `forward` takes the batch and returns its loss."""

    fields: Mapping[str, Field]
    """What it reads of a batch; families that name a field alike read the same tensor."""


class Together(nn.Module):
    """Models side by side."""

    def __init__(self, families: Mapping[str, Family]) -> None:
        super().__init__()
        self.families = nn.ModuleDict({name: family.build() for name, family in families.items()})

    def forward(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Return the loss of each family."""
        return {name: model(batch) for name, model in self.families.items()}


def losses(model: nn.Module, batch: Batch) -> dict[str, torch.Tensor]:
    """Return the loss of each family, and their sum as `loss`."""
    found = model(batch)
    return {"loss": sum(found.values()), **found}


def together(families: Mapping[str, Family], **recipe: Any) -> Recipe:
    """Return a recipe that trains all of the families."""
    fields: dict[str, Field] = {}
    for family in families.values():
        for name, field in family.fields.items():
            assert fields.setdefault(name, field) == field, f"two kinds of {name}"
    return Recipe(
        build=lambda: Together(families),
        dataset=Samples(fields=fields),
        outputs=losses,
        **recipe,
    )
