"""Batches for `train_gpt.py`; a module of its own, since streamers import it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "programs"))

import cerebras.pytorch as cstorch
import torch
from gpt import GptShape, batches

NUM_BATCHES = 8


class Batches:
    """The benchmark's batches in turn, without end; in a streamer this worker's share of each.

    Args:
        shape: Fields of a `GptShape`.
        gate: Path of a Unix socket that hands out a byte for each batch; empty for no gate.
    """

    def __init__(self, shape: dict[str, Any], gate: str) -> None:
        self._shape, self._gate = GptShape(**shape), gate

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        share = self._share()
        data = batches(self._shape, NUM_BATCHES)
        with socket.socket(socket.AF_UNIX) as gate:
            if self._gate:
                gate.connect(self._gate)
            number = 0
            while not self._gate or gate.recv(1):
                batch = data[number % NUM_BATCHES]
                yield {name: value[share] for name, value in batch.items()}
                number += 1

    def _share(self) -> slice:
        size = self._shape.batch_size
        if not cstorch.distributed.is_streamer():
            return slice(0, size)
        of_rank = cstorch.distributed.get_streaming_batch_size
        rank = cstorch.distributed.get_streaming_rank()
        start = sum(of_rank(size, other) for other in range(rank))
        return slice(start, start + of_rank(size, rank))
