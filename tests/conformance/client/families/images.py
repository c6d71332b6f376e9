"""Models of images: a ViT, a diffusion transformer's block, and images before text as in LLaVA."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from data import Field
from models import VOCAB, WIDTH, Block, SelfAttention, integers
from torch import nn

from families.decoders import TOKENS, LearnedPositions, token_loss
from families.together import Batch, Family

PATCH, SIDE = 4, 8
NUM_PATCHES = (SIDE // PATCH) ** 2
PICTURE = {"image": Field(shape=(3, SIDE, SIDE))}


def unmasked(x):
    """Return a mask that hides nothing."""
    return torch.zeros(x.shape[1], x.shape[1], device=x.device)


class Patches(nn.Module):
    """A vector for each patch of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)

    def forward(self, image):
        return self.convolution(image).flatten(2).transpose(1, 2)


class Vit(nn.Module):
    """Patches behind a class token, whose last state says the class."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = Patches()
        self.class_token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.randn(1, NUM_PATCHES + 1, WIDTH))
        self.block, self.norm = Block(), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, batch: Batch):
        x = self.patches(batch["image"])
        first = self.class_token.to(x.dtype).expand(x.shape[0], -1, -1)
        x = torch.cat((first, x), dim=1) + self.positions.to(x.dtype)
        x = self.norm(self.block(x, unmasked(x)))
        return F.cross_entropy(self.head(x[:, 0]).float(), batch["class"].long())


class AdaptiveBlock(nn.Module):
    """A DiT block: shift, scale and gate of each half come from time and class."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.attention = SelfAttention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.adapt = nn.Linear(WIDTH, 6 * WIDTH)

    def forward(self, x, condition):
        parts = self.adapt(F.silu(condition))[:, None].chunk(6, dim=-1)
        shift1, scale1, gate1, shift2, scale2, gate2 = parts
        inner = self.norm1(x) * (1.0 + scale1) + shift1
        x = x + gate1 * self.attention(inner, unmasked(x))
        inner = self.norm2(x) * (1.0 + scale2) + shift2
        return x + gate2 * self.down(F.gelu(self.up(inner), approximate="tanh"))


class Dit(nn.Module):
    """Says the noise in an image, given how much there is and what the image shows."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.classes = Patches(), nn.Embedding(5, WIDTH)
        self.time = nn.Linear(WIDTH, WIDTH)
        self.block = AdaptiveBlock()
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.out = nn.Linear(WIDTH, 3 * PATCH * PATCH)
        rates = 100.0 ** (-torch.arange(WIDTH // 2).float() / (WIDTH // 2))
        self.register_buffer("rates", rates)

    def forward(self, batch: Batch):
        waves = batch["time"].float()[:, None] * self.rates
        waves = torch.cat((torch.cos(waves), torch.sin(waves)), dim=-1)
        x = self.patches(batch["image"])
        condition = self.time(waves.to(x.dtype)) + self.classes(batch["class"])
        said = self.out(self.norm(self.block(x, condition)))
        return (said.float() - batch["noise"].float()).pow(2).mean()


class ImageThenText(nn.Module):
    """Projected patches of a frozen encoder before the tokens of a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = Patches().requires_grad_(False)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), LearnedPositions()
        self.block, self.norm = Block(), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, batch: Batch):
        seen = self.project(F.gelu(self.patches(batch["image"])))
        text, _ = self.positions(self.tokens(batch["input_ids"]))
        x = torch.cat((seen, text), dim=1)
        future = torch.triu(torch.ones(x.shape[1], x.shape[1], device=x.device), diagonal=1)
        x = self.block(x, future * -1e4)[:, NUM_PATCHES:]
        return token_loss(self.head(self.norm(x)), batch["labels"])


CLASS = {"class": integers(high=5)}
NOISE = {
    "time": integers(high=50),
    "noise": Field(shape=(NUM_PATCHES, 3 * PATCH * PATCH)),
}

IMAGES = {
    "vit": Family(build=Vit, fields={**PICTURE, **CLASS}),
    "dit": Family(build=Dit, fields={**PICTURE, **CLASS, **NOISE}),
    "image_then_text": Family(build=ImageThenText, fields={**PICTURE, **TOKENS}),
}
