"""A GPT as a user would write it, in plain torch: the model that every engine benchmark trains.

Learned positions, layer norm in front, causal attention by `scaled_dot_product_attention`, GELU,
head tied to the token embedding, mean cross entropy. It runs in plain PyTorch, on the client's CPU
backend, and traced by the client; only torch is imported here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True, kw_only=True)
class GptShape:
    """Sizes of a model and of its batch.

    Attributes:
        width: Features of the residual stream.
        depth: Blocks.
        heads: Attention heads of a block.
        batch_size: Sequences in a step, over all systems.
        seq_len: Tokens in a sequence.
        vocab_size: Different tokens.
    """

    width: int = 512
    depth: int = 8
    heads: int = 8
    batch_size: int = 4
    seq_len: int = 128
    vocab_size: int = 1024

    @property
    def name(self) -> str:
        """A name for files and tables, as in `gpt-d512-l8-b4x128`."""
        extra = "" if self.vocab_size == 1024 else f"-v{self.vocab_size}"
        return f"gpt-d{self.width}-l{self.depth}-b{self.batch_size}x{self.seq_len}{extra}"

    @property
    def units_a_step(self) -> int:
        """What throughput counts, in a step: tokens."""
        return self.batch_size * self.seq_len

    @property
    def num_parameters(self) -> int:
        """Parameters, those of biases and norms left out."""
        return 12 * self.depth * self.width**2 + self.vocab_size * self.width

    @property
    def activation_bytes(self) -> int:
        """Estimated bytes of a step's activations in float32, three copies of the logits included.

        Source: V. Korthikanti et al., Reducing Activation Recomputation in Large Transformer
        Models, 2022, equation 2, arXiv:2205.05198.
        """
        by_token = 2 * self.width * (34 + 5 * self.heads * self.seq_len / self.width)
        return int(self.units_a_step * (self.depth * by_token + 3 * 4 * self.vocab_size))


class Block(nn.Module):
    """Attention and a two-layer perceptron, each with a residual connection."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        width, self.heads = shape.width, shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def split_heads(self, x: torch.Tensor) -> torch.Tensor:
        """Reshape (batch, length, width) to (batch, heads, length, size)."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the residual stream after this block."""
        query, key, value = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        attended = F.scaled_dot_product_attention(
            self.split_heads(query), self.split_heads(key), self.split_heads(value), is_causal=True
        )
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        mixed: torch.Tensor = self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return x + mixed


class Gpt(nn.Module):
    """Predict every next token of a window."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(shape.vocab_size, shape.width)
        self.positions = nn.Embedding(shape.seq_len, shape.width)
        blocks = [Block(shape) for _ in range(shape.depth)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocab_size, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self.initialise)
        for block in blocks:  # keep the residual stream's variance independent of depth
            for layer in (block.out, block.down):
                nn.init.normal_(layer.weight, std=0.02 / math.sqrt(2 * shape.depth))

    @staticmethod
    def initialise(module: nn.Module) -> None:
        """Small normal weights, zero biases."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean loss in nats per token."""
        places = torch.arange(self.shape.seq_len, device=input_ids.device, dtype=torch.int32)
        x = self.tokens(input_ids) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, self.shape.vocab_size), labels.view(-1).long())


LEARNING_RATE, BETAS, EPSILON, WEIGHT_DECAY = 3e-4, (0.9, 0.95), 1e-8, 0.1
"""AdamW of every engine benchmark, one group."""


def batches(shape: GptShape, count: int, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    """Return batches of random tokens, each predicting the next one."""
    generator = torch.Generator().manual_seed(seed)
    size = (count, shape.batch_size, shape.seq_len + 1)
    drawn = torch.randint(shape.vocab_size, size, generator=generator, dtype=torch.int32)
    return [
        {"input_ids": tokens[:, :-1].contiguous(), "labels": tokens[:, 1:].contiguous()}
        for tokens in drawn
    ]
