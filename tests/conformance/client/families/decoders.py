"""Decoders by how they know positions, and what else differs between GPT-like families."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from data import Field
from models import HEADS, LENGTH, VOCAB, WIDTH, Block, integers, rotate
from torch import nn

from families.together import Batch, Family

SIZE = WIDTH // HEADS
TOKENS = {"input_ids": integers(LENGTH), "labels": integers(LENGTH)}
HIDDEN = -1e4


def token_loss(logits, labels):
    """Mean cross entropy over all tokens."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), labels.view(-1).long())


def distances(device):
    """Return how far each key lies behind each query, [query, key]; int32."""
    place = torch.arange(LENGTH, device=device, dtype=torch.int32)
    return place[:, None] - place[None, :]


def causal(device):
    """Return what is added to scores of keys that a query must not see, [query, key]."""
    return (distances(device) < 0).float() * HIDDEN


class FixedPositions(nn.Module):
    """Sinusoids that are added to the embeddings."""

    def __init__(self) -> None:
        super().__init__()
        place = torch.arange(LENGTH).float()[:, None]
        rates = 100.0 ** (-torch.arange(WIDTH // 2).float() / (WIDTH // 2))
        waves = torch.cat((torch.sin(place * rates), torch.cos(place * rates)), dim=-1)
        self.register_buffer("waves", waves)

    def forward(self, x):
        return x + self.waves.to(x.dtype), causal(x.device)


class LearnedPositions(nn.Module):
    """Embeddings of positions that are added to those of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Embedding(LENGTH, WIDTH)

    def forward(self, x):
        place = torch.arange(LENGTH, device=x.device, dtype=torch.int32)
        return x + self.positions(place), causal(x.device)


class Alibi(nn.Module):
    """Scores that fall with the distance, in each head by another slope."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("slopes", 2.0 ** -(torch.arange(HEADS).float() + 1))

    def forward(self, x):
        far = distances(x.device).float()
        return x, causal(x.device) - self.slopes[:, None, None] * far


class RelativePositions(nn.Module):
    """A learned number for each head and bucket of distances, which is added to scores."""

    BUCKETS = 4

    def __init__(self, *, both_ways: bool = False) -> None:
        super().__init__()
        self.both_ways = both_ways
        self.bias = nn.Embedding((1 + both_ways) * self.BUCKETS, HEADS)

    def forward(self, x):
        far = distances(x.device)
        buckets = torch.clamp(far.abs(), 0, self.BUCKETS - 1)
        if self.both_ways:
            buckets = buckets + (far < 0).to(buckets.dtype) * self.BUCKETS
        bias = self.bias(buckets).permute(2, 0, 1).float()
        return x, bias if self.both_ways else bias + causal(x.device)


class SlidingWindow(LearnedPositions):
    """Queries that see the last few keys, and the first one."""

    WINDOW = 3

    def forward(self, x):
        x, mask = super().forward(x)
        far = distances(x.device)
        place = torch.arange(LENGTH, device=x.device, dtype=torch.int32)
        unseen = (far >= self.WINDOW) & (place[None, :] > 0)
        return x, mask + unseen.float() * HIDDEN


class Decoder(nn.Module):
    """Blocks of attention over the keys before a query."""

    def __init__(self, positions: Callable[[], nn.Module], *, cap: float = 0.0) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.positions = positions()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.cap = cap

    def logits(self, ids):
        x, mask = self.positions(self.tokens(ids))
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(self.norm(x))
        return torch.tanh(logits / self.cap) * self.cap if self.cap else logits

    def forward(self, batch: Batch):
        return token_loss(self.logits(batch["input_ids"]), batch["labels"])


class ParallelBlock(nn.Module):
    """Rotary attention of one key head, beside the feed-forward layers, from one normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key_value = nn.Linear(WIDTH, 2 * SIZE, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, angles, mask):
        batch = x.shape[0]
        normed = self.norm(x)
        query = self.query(normed).view(batch, LENGTH, HEADS, SIZE).transpose(1, 2)
        key, value = self.key_value(normed)[:, None].chunk(2, dim=-1)
        scores = torch.matmul(rotate(query, angles), rotate(key, angles).transpose(-1, -2))
        weights = F.softmax(scores.float() / math.sqrt(SIZE) + mask, dim=-1).to(value.dtype)
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(batch, LENGTH, WIDTH)
        return x + self.out(mixed) + self.down(F.gelu(self.up(normed)))


class ParallelDecoder(nn.Module):
    """Rotary positions, multi-query attention, attention and feed-forward layers in parallel."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(ParallelBlock() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.register_buffer("rates", 100.0 ** (-torch.arange(SIZE // 2).float() / (SIZE // 2)))

    def forward(self, batch: Batch):
        x = self.tokens(batch["input_ids"])
        place = torch.arange(LENGTH, device=x.device, dtype=torch.float32)
        angles = place[:, None] * self.rates[None, :]
        for block in self.blocks:
            x = block(x, angles, causal(x.device))
        logits = torch.matmul(self.norm(x), self.tokens.weight.to(x.dtype).transpose(0, 1))
        return token_loss(logits, batch["labels"])


class PackedDecoder(Decoder):
    """Sequences of varied length in one row: tokens see their own sequence, and count in it."""

    def forward(self, batch: Batch):
        x = self.tokens(batch["input_ids"])
        x = x + self.positions.positions(batch["place"])
        sequence = batch["sequence"]
        others = (sequence[:, None, :, None] != sequence[:, None, None, :]).float()
        for block in self.blocks:
            x = block(x, causal(x.device) + others * HIDDEN)
        return token_loss(self.head(self.norm(x)), batch["labels"])


PACKED = {
    **TOKENS,
    "place": integers(LENGTH, high=LENGTH),
    # Ones up to a random length, then zeros: two sequences.
    "sequence": Field(shape=(LENGTH,), kind="prefix_mask", dtype=torch.int32),
}


def decoder(positions: Callable[[], nn.Module], **options: float) -> Family:
    """Return a family of decoders."""
    return Family(build=lambda: Decoder(positions, **options), fields=TOKENS)


DECODERS = {
    "fixed": decoder(FixedPositions),
    "learned": decoder(LearnedPositions),
    "alibi": decoder(Alibi),
    "relative": decoder(RelativePositions),
    "sliding_capped": decoder(SlidingWindow, cap=4.0),
    "rotary_parallel": Family(build=ParallelDecoder, fields=TOKENS),
    "varied_lengths": Family(build=lambda: PackedDecoder(LearnedPositions), fields=PACKED),
}
