"""A small GPT: learned positions, layer norm in front, one linear head."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class SelfAttention(nn.Module):
    """Causal multi-head attention."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.size = num_heads, width // num_heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def heads(self, x):
        """Reshape (batch, length, width) to (batch, heads, length, size)."""
        return x.view(*x.shape[:2], self.num_heads, self.size).transpose(1, 2)

    def forward(self, x, future):
        query, key, value = (
            self.heads(project(x)) for project in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.size)
        weights = F.softmax(scores.float() + future, dim=-1).to(value.dtype)
        return self.output(torch.matmul(weights, value).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """Attention and a two-layer perceptron, each with a residual connection."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = SelfAttention(width, num_heads)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, future):
        x = x + self.attention(self.norm1(x), future)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """Predict every next byte of a window."""

    def __init__(
        self, vocab_size: int, seq_len: int, width: int = 256, depth: int = 4, num_heads: int = 4
    ) -> None:
        super().__init__()
        self.vocab_size, self.seq_len = vocab_size, seq_len
        self.tokens = nn.Embedding(vocab_size, width)
        self.positions = nn.Embedding(seq_len, width)
        self.blocks = nn.ModuleList(Block(width, num_heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab_size, bias=False)
        self.apply(self.initialise)
        for block in self.blocks:  # keep the residual stream's variance independent of depth
            for layer in (block.attention.output, block.down):
                nn.init.normal_(layer.weight, std=0.02 / math.sqrt(2 * depth))

    @staticmethod
    def initialise(module) -> None:
        """Small normal weights, zero biases."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, input_ids, labels):
        """Return the mean loss in nats per byte."""
        places = torch.arange(self.seq_len, device=input_ids.device, dtype=torch.int32)
        future = torch.triu(
            torch.ones(self.seq_len, self.seq_len, device=input_ids.device), diagonal=1
        )
        x = self.tokens(input_ids) + self.positions(places)
        for block in self.blocks:
            x = block(x, future * -1e4)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, self.vocab_size).float(), labels.view(-1).long())
