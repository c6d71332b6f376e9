"""An encoder as a user would write it, in plain torch, after BERT (arXiv:1810.04805).

It has the parts of the benchmark's GPT, but attention to all positions, layer norm behind each
residual connection, exact GELU, and a head of a dense layer and a norm. It restores the tokens of
which some were replaced by others; the loss is the mean cross entropy over all positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.programs import gpt

REPLACED = 0.15
"""Part of the tokens that is replaced, as in BERT."""


@dataclass(frozen=True, kw_only=True)
class EncoderShape(gpt.GptShape):
    """Sizes of a model and of its batch, as a GPT has them."""

    @property
    def name(self) -> str:
        """A name for files and tables, as in `encoder-d512-l8-b4x128`."""
        return f"encoder-{super().name.removeprefix('gpt-')}"

    @property
    def num_parameters(self) -> int:
        """Parameters, those of biases and norms left out."""
        return super().num_parameters + self.width**2


class Block(gpt.Block):
    """Attention and a two-layer perceptron, each with a residual connection and a norm behind."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the residual stream after this block."""
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        attended = F.scaled_dot_product_attention(
            self.split_heads(query), self.split_heads(key), self.split_heads(value)
        )
        x = self.norm1(x + self.out(attended.transpose(1, 2).reshape(x.shape)))
        normed: torch.Tensor = self.norm2(x + self.down(F.gelu(self.up(x))))
        return normed


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
        self.apply(gpt.Gpt.initialise)

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
        for tokens, originals in zip(given, labels, strict=True)
    ]
