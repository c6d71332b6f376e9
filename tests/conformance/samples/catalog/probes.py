"""Small models that put one operation, or one loss, between a linear layer and the loss.

The linear layer in front gives the operation a 16-bit input that needs a gradient, so that a
trained probe contains the operation's forward and backward pass. Constants are exact in 16 bits
where they can be, because the program text holds them rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from data import Field, Samples
from models import optimizer
from recipes import Recipe
from torch import nn

from catalog.sample import Sample

BATCH = 4

Function = Callable[..., torch.Tensor]


def index(*shape: int, high: int, dtype: torch.dtype = torch.int32) -> Field:
    """A field of integers below `high`."""
    return Field(shape=shape, kind="integers", high=high, dtype=dtype)


def bits(*shape: int) -> Field:
    """A field of booleans."""
    return Field(shape=shape, kind="integers", high=2, dtype=torch.bool)


def normal(*shape: int, **options: Any) -> Field:
    """A field of f32 numbers."""
    return Field(shape=shape, **options)


class Probe(nn.Module):
    """A linear layer, and then the function: `function(values, **batch fields)`.

    With a module the function's first argument is that module.
    """

    def __init__(self, function: Function, shape: tuple[int, ...], make: Any = None) -> None:
        super().__init__()
        self.function, self.shape = function, shape
        self.layer = nn.Linear(8, torch.Size(shape).numel())
        self.module = make() if make else None

    def forward(self, features, **fields):
        values = self.layer(features).view(-1, *self.shape)
        if self.module is None:
            return self.function(values, **fields)
        return self.function(self.module, values, **fields)


def mean_square(model, batch):
    """Train on the mean square of what the function returns, and return that as well."""
    fields = dict(batch)
    result = model(fields.pop("x"), **fields).float()
    return {"loss": (result * result).mean(), "y": result}


def own_loss(model, batch):
    """Train on what the function returns."""
    fields = dict(batch)
    return {"loss": model(fields.pop("x"), **fields)}


def op(
    function: Function,
    *,
    shape: tuple[int, ...] = (8,),
    make: Callable[[], nn.Module] | None = None,
    fields: Mapping[str, Field] | None = None,
    outputs: Callable[..., Any] = mean_square,
    **options: Any,
) -> Sample:
    """Return a sample of an operation on values of shape (batch, *shape)."""
    recipe = Recipe(
        build=partial(Probe, function, shape, make),
        dataset=Samples(fields={"x": normal(8), **(fields or {})}),
        outputs=outputs,
        optimizer=optimizer("SGD", lr=0.125),
        batch_size=BATCH,
    )
    return Sample(recipe=recipe, num_steps=2, **options)


loss = partial(op, outputs=own_loss)
