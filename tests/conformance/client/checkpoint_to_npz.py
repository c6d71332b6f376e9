"""Convert a checkpoint of the client to an npz file, so that a test can read it without the client.

    python checkpoint_to_npz.py CHECKPOINT NPZ

Keys are paths in the checkpoint joined by dots (`model.fc1.weight`, `optimizer.state.0.exp_avg`);
whatever is not a tensor or a number is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cerebras.pytorch as cstorch
import numpy as np
import torch


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, np.ndarray]]:
    """Yield a nested structure's tensors and numbers with their paths."""
    if isinstance(value, torch.Tensor):
        yield ".".join(path), value.detach().cpu().numpy()
    elif isinstance(value, bool | int | float | np.number):
        yield ".".join(path), np.asarray(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, (*path, str(key)))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, item in enumerate(value):
            yield from leaves(item, (*path, str(number)))


def main() -> None:
    """Convert the file that the command line names."""
    source, target = sys.argv[1:]
    np.savez(target, **dict(leaves(cstorch.load(source))))


if __name__ == "__main__":
    main()
