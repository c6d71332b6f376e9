"""An encoder as a user would write it, in plain torch, after BERT (arXiv:1810.04805).

Learned positions, attention to all positions, layer norm behind each residual connection, exact
GELU, a head of a dense layer and a norm tied to the token embedding. It restores the tokens of
which some were replaced by others; the loss is the mean cross entropy over all positions. Only
torch is imported here, as in `gpt`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

REPLACED = 0.15
"""Part of the tokens that is replaced, as in BERT."""


@dataclass(frozen=True, kw_only=True)
class EncoderShape:
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
        """A name for files and tables, as in `encoder-d512-l8-b4x128-v1024`."""
        batch = f"b{self.batch_size}x{self.seq_len}"
        return f"encoder-d{self.width}-l{self.depth}-{batch}-v{self.vocab_size}"

    @property
    def units_a_step(self) -> int:
        """What throughput counts, in a step: tokens."""
        return self.batch_size * self.seq_len

    @property
    def num_parameters(self) -> int:
        """Parameters, those of biases and norms left out."""
        return (12 * self.depth + 1) * self.width**2 + self.vocab_size * self.width

    @property
    def activation_bytes(self) -> int:
        """Estimated bytes of a step's activations in float32; the source is that of `GptShape`."""
        by_token = 2 * self.width * (34 + 5 * self.heads * self.seq_len / self.width)
        return int(self.units_a_step * (self.depth * by_token + 3 * 4 * self.vocab_size))


class Block(nn.Module):
    """Attention and a two-layer perceptron, each with a residual connection and a norm behind."""

    def __init__(self, shape: EncoderShape) -> None:
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
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        attended = F.scaled_dot_product_attention(
            self.split_heads(query), self.split_heads(key), self.split_heads(value)
        )
        x = self.norm1(x + self.out(attended.transpose(1, 2).reshape(x.shape)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    """Restore every token of a sequence."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(shape.vocab_size, shape.width)
        self.positions = nn.Embedding(shape.seq_len, shape.width)
        self.norm = nn.LayerNorm(shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.depth))
        self.transform = nn.Linear(shape.width, shape.width)
        self.transform_norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocab_size, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self.initialise)

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
        x = self.norm(self.tokens(input_ids) + self.positions(places))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.transform_norm(F.gelu(self.transform(x))))
        return F.cross_entropy(logits.view(-1, self.shape.vocab_size), labels.view(-1).long())


def batches(shape: EncoderShape, count: int, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    """Return batches of random tokens and of what is to be restored."""
    generator = torch.Generator().manual_seed(seed)
    size = (count, shape.batch_size, shape.seq_len)
    labels = torch.randint(shape.vocab_size, size, generator=generator, dtype=torch.int32)
    others = torch.randint(shape.vocab_size, size, generator=generator, dtype=torch.int32)
    is_replaced = torch.rand(size, generator=generator) < REPLACED
    given = torch.where(is_replaced, others, labels)
    return [
        {"input_ids": tokens.contiguous(), "labels": originals.contiguous()}
        for tokens, originals in zip(given, labels)  # noqa: B905 - both have `count`
    ]


SHAPE, MODEL, UNIT = EncoderShape, Encoder, "tokens"
"""What a program that is told the model's name trains, and what its throughput counts."""
