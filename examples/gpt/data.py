"""Real text, byte by byte: the source of Python 3.11.7's standard library, without its tests.

It is beside this module, so that every machine trains on the same, and its license is in
`LICENSE.text`. A separate module, because the cluster's input workers import it: a function of the
script itself would have to travel by value.
"""

from __future__ import annotations

import lzma
from functools import lru_cache
from pathlib import Path

import cerebras.pytorch as cstorch
import torch
from torch.utils.data import DataLoader, Dataset

VOCAB_SIZE = 256


@lru_cache
def read_text(split: str) -> torch.Tensor:
    """Return the bytes of all files of a split, `train` or `validation`.

    One file in twenty is kept for validation, and no file is in both.
    """
    packed = Path(__file__).with_name(f"{split}.txt.xz").read_bytes()
    return torch.frombuffer(bytearray(lzma.decompress(packed)), dtype=torch.uint8)


class Windows(Dataset):
    """Consecutive windows of a text: a window's bytes, and each one's successor as its label."""

    def __init__(self, split: str, seq_len: int) -> None:
        self.text, self.seq_len = read_text(split), seq_len

    def __len__(self) -> int:
        return (len(self.text) - 1) // self.seq_len

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        start = index * self.seq_len
        window = self.text[start : start + self.seq_len + 1].int()
        return {"input_ids": window[:-1], "labels": window[1:]}


class Batches:
    """Shuffled batches whose position can be saved and restored.

    On the cluster every input worker has one of these. `DistributedSampler` takes the global batch
    size and gives each worker its share, so all workers together stream the same samples in the
    same order whatever their number.
    """

    def __init__(self, split: str, batch_size: int, seq_len: int) -> None:
        self.windows = Windows(split, seq_len)
        self.batch_size = batch_size
        self.num_seen = 0

    def __len__(self) -> int:
        return len(self.windows) // self.batch_size

    def __iter__(self):
        sampler = cstorch.utils.data.DistributedSampler(
            self.windows, seed=1, start_index=self.num_seen, batch_size=self.batch_size
        )
        yield from DataLoader(self.windows, batch_sampler=sampler)

    def state_dict(self) -> dict[str, int]:
        worker = cstorch.distributed.get_worker_state()
        return {"seen_before": self.num_seen, "seen_now": worker.samples_streamed}

    def aggregate_state_dict(self, workers: list[dict[str, int]]) -> dict[str, int]:
        return {"num_seen": workers[0]["seen_before"] + sum(w["seen_now"] for w in workers)}

    def deaggregate_state_dict(self, state: dict[str, int]) -> dict[str, int]:
        return state

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.num_seen = state["num_seen"]
