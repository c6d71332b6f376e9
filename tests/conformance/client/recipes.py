"""What it takes to train one model: the fields of a recipe, and nothing about any one model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import Dataset

Batch = Any
Outputs = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A model with its data, loss and optimizer."""

    build: Callable[[], torch.nn.Module]
    """Make the model; called after `torch.manual_seed`."""

    dataset: Dataset
    """Samples by index, the same on every call."""

    outputs: Callable[[torch.nn.Module, Batch], Outputs]
    """Forward pass; `loss` is the key that is trained on, the other keys are returned as well."""

    optimizer: Callable[[Any], Any] | None = None
    """Make a `cstorch.optim` optimizer from named parameters; None for evaluation only."""

    scheduler: Callable[[Any], Any] | None = None
    """Make a `cstorch.optim.lr_scheduler` for the optimizer."""

    grad_scaler: dict[str, Any] | None = None
    """Arguments of `cstorch.amp.GradScaler`; None to train without one."""

    max_gradient_norm: float | None = None
    """Clip the global gradient norm to this value."""

    sparsity: list[dict[str, Any]] | None = None
    """What `cstorch.sparse.configure` takes; None to train dense."""

    half_dtype: str = "float16"
    """The 16-bit format of the traced program."""

    batch_size: int = 4
    """Global batch size, unless a run asks for another one."""

    seed: int = 1
    """Seed of the initial weights and of the program's random ops."""
