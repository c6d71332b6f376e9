"""Batches made from a description of their fields; imported by the client and its input workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import cerebras.pytorch as cstorch
import numpy as np
import torch

Fields = Mapping[str, Any]
"""Field name to its description, or to further fields; with numbers as names, of a tuple."""


def batches(fields: Fields, batch_size: int, seed: int, num_batches: int) -> Iterator[Any]:
    """Yield batches, the same ones for the same arguments; in an input worker, its share of each.

    With one worker for each system, its rank is the number of the system.
    """
    part = slice(None)
    if cstorch.distributed.is_streamer():
        rank = cstorch.distributed.get_streaming_rank()
        sizes = [
            cstorch.distributed.get_streaming_batch_size(batch_size, global_rank=index)
            for index in range(rank + 1)
        ]
        part = slice(sum(sizes[:-1]), sum(sizes))
    for step in range(num_batches):
        generator = np.random.default_rng((seed, step))
        whole = _tree(fields, batch_size, generator)
        yield torch.utils._pytree.tree_map(lambda x: x[part].clone(), whole)


def _tree(fields: Fields, batch_size: int, generator: np.random.Generator) -> Any:
    made: dict[str, Any] = {}
    for name, description in fields.items():
        if "shape" not in description and "like" not in description:
            made[name] = _tree(description, batch_size, generator)
        else:
            made[name] = _field(description, batch_size, generator, made)
    return tuple(made.values()) if all(name.isdigit() for name in made) else made


def _field(
    description: Mapping[str, Any],
    batch_size: int,
    generator: np.random.Generator,
    made: Mapping[str, Any],
) -> torch.Tensor:
    """Make one field, whose description holds its `shape` and one of these.

    * `high`: integers below it (from `low`).
    * `normal`: numbers of that deviation.
    * `value`: a constant.
    * `lengths`: ones up to a drawn length between two bounds, then zeros.
    * `count`: 0, 1, 2, ... (from `low`).
    * `sample`: that many times the number of the sample.
    * `parts`: numbers of equal parts, 0 0 0 0 1 1 1 1; with `within` the place within the part.
    * `span`: how many places of the part follow.

    `{"like": "input_ids", "shift": 1}` is another field, moved left.
    """
    if "like" in description:
        return torch.roll(made[description["like"]], -description.get("shift", 0), dims=1)
    dtype = getattr(torch, description.get("dtype", "int32"))
    shape = (batch_size, *description["shape"])
    return torch.from_numpy(np.array(_values(description, shape, generator))).to(dtype)


def _values(
    description: Mapping[str, Any], shape: tuple[int, ...], generator: np.random.Generator
) -> np.ndarray:
    if "high" in description:
        return generator.integers(description.get("low", 0), description["high"], size=shape)
    if "normal" in description:
        return generator.normal(size=shape) * description["normal"]
    if "lengths" in description:
        low, high = description["lengths"]
        lengths = generator.integers(low, high + 1, size=(*shape[:-1], 1))
        return (np.arange(shape[-1]) < lengths).astype(np.int64)
    if "count" in description:
        return np.broadcast_to(np.arange(shape[-1]) + description.get("low", 0), shape)
    if "sample" in description:
        samples = np.arange(shape[0]) * description["sample"]
        return np.broadcast_to(samples.reshape(-1, *(1,) * (len(shape) - 1)), shape)
    if "span" in description:
        size = shape[-1] // description["span"]
        return np.broadcast_to(size - 1 - np.arange(shape[-1]) % size, shape)
    if "parts" in description:
        size = shape[-1] // description["parts"]
        places = np.arange(shape[-1])
        return np.broadcast_to(
            places % size if description.get("within") else places // size, shape
        )
    return np.full(shape, description["value"])
