"""The models of the conformance tests, as recipes by name.

All are small, and written with the plain PyTorch operations that the client can lower. The
program text holds 16-bit constants already rounded (sqrt(8) is 2.82813 there), so constants that
meet 16-bit values are chosen to be exact: heads have 4 elements, masks add -1e4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import cerebras.pytorch as cstorch
import torch
import torch.nn.functional as F
from data import Field, Samples
from experts import ChosenExperts, MaskedExperts
from recipes import Recipe
from torch import nn

VOCAB, WIDTH, HEADS, LENGTH = 32, 16, 4, 8


# --------------------------------------------------------------------------- optimizers


def optimizer(name: str, **options) -> Callable[[Any], Any]:
    """Return a maker of one of the client's optimizers over all parameters in one group."""
    make = getattr(cstorch.optim, name)
    return lambda named_parameters: make([p for _, p in named_parameters], **options)


def adamw(named_parameters):
    """AdamW in two groups, as GPT scripts have it: only matrices decay."""
    parameters = list(named_parameters)
    decay = [p for _, p in parameters if p.dim() > 1]
    rest = [p for _, p in parameters if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    return cstorch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-8)


def warmup_then_decay(opt):
    """Linear warmup over two steps, then cosine decay."""
    warmup = cstorch.optim.lr_scheduler.LinearLR(
        opt, initial_learning_rate=1e-3, end_learning_rate=1e-2, total_iters=2
    )
    decay = cstorch.optim.lr_scheduler.CosineDecayLR(
        opt, initial_learning_rate=1e-2, end_learning_rate=1e-3, total_iters=8
    )
    return cstorch.optim.lr_scheduler.SequentialLR(opt, [warmup, decay], milestones=[2])


# --------------------------------------------------------------------------- multi-layer perceptron


class Mlp(nn.Module):
    def __init__(self, width: int = 16, dropout: float = 0.0) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, width)
        self.drop = nn.Dropout(dropout) if dropout else nn.Identity()
        self.fc2 = nn.Linear(width, 4)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.fc1(x))))


VECTORS = Samples(fields=(Field(shape=(8,)), Field(kind="integers", high=4, dtype=torch.int32)))


def classify(model, batch):
    """Cross entropy of class labels."""
    features, labels = batch
    return {"loss": F.cross_entropy(model(features).float(), labels.long())}


def classify_with_logits(model, batch):
    """Cross entropy, and the logits of every sample."""
    features, labels = batch
    logits = model(features)
    return {"loss": F.cross_entropy(logits.float(), labels.long()), "logits": logits.float()}


MLP = partial(Recipe, build=Mlp, dataset=VECTORS, outputs=classify)


class DropoutProbe(Mlp):
    """An MLP with dropout that also drops out ones, to show mean and keep rate."""

    RATE = 0.25

    def __init__(self) -> None:
        super().__init__(width=64, dropout=self.RATE)

    def forward(self, x, ones):
        return super().forward(x), F.dropout(ones, self.RATE, self.training)


def classify_and_probe(model, batch):
    """Cross entropy, and mean and share of kept elements of a dropped-out tensor of ones."""
    features, ones, labels = batch
    logits, dropped = model(features, ones)
    dropped = dropped.float()
    return {
        "loss": F.cross_entropy(logits.float(), labels.long()),
        "mean": dropped.mean(),
        "kept": (dropped > 0.5).float().mean(),
    }


# --------------------------------------------------------------------------- convolutions


class Cnn(nn.Module):
    """Padding, stride, dilation, batch norm, max pooling and average pooling.

    The running statistics start away from 0 and 1, so that evaluation shows whether they are used.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(8)
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=2, dilation=2)
        self.norm2 = nn.BatchNorm2d(16)
        self.pool2 = nn.AvgPool2d(2)
        self.head = nn.Linear(16, 5)
        for norm in (self.norm1, self.norm2):
            norm.running_mean.uniform_(-0.5, 0.5)
            norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x):
        x = self.pool1(F.relu(self.norm1(self.conv1(x))))
        x = self.pool2(F.relu(self.norm2(self.conv2(x))))
        return self.head(torch.flatten(x, 1))


IMAGES = Samples(
    fields=(Field(shape=(3, 8, 8), offset=0.3), Field(kind="integers", high=5, dtype=torch.int32))
)


# --------------------------------------------------------------------------- transformers


class SelfAttention(nn.Module):
    """Multi-head attention with an additive mask."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = heads[0], heads[1], heads[2]
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(width // HEADS)
        weights = F.softmax(scores.float() + mask, dim=-1).to(value.dtype)
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, width)
        return self.proj(mixed)


class Block(nn.Module):
    """A transformer block that normalises first."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = SelfAttention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class RoutedBlock(Block):
    """A transformer block whose second part are experts."""

    def __init__(self, make_experts: Callable[[int], nn.Module]) -> None:
        super().__init__()
        del self.up, self.down
        self.experts = make_experts(WIDTH)

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.experts(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        place = torch.arange(ids.shape[1], device=ids.device, dtype=torch.int32)
        x = self.tokens(ids) + self.positions(place)
        future = torch.triu(torch.ones(LENGTH, LENGTH, device=ids.device), diagonal=1)
        for block in self.blocks:
            x = block(x, future * -1e4)
        return self.head(self.norm(x))


def routed_gpt() -> Gpt:
    """A GPT with experts, in one block by masks and in the other by numbers."""
    model = Gpt()
    kinds = (MaskedExperts, ChosenExperts)
    model.blocks = nn.ModuleList(RoutedBlock(kind) for kind in kinds)
    return model


def integers(*shape: int, high: int = VOCAB) -> Field:
    """A field of int32 numbers."""
    return Field(shape=shape, kind="integers", high=high, dtype=torch.int32)


TEXT = Samples(fields={"input_ids": integers(LENGTH), "labels": integers(LENGTH)})


def next_token(model, batch):
    """Mean cross entropy over all tokens."""
    logits = model(batch["input_ids"])
    labels = batch["labels"].view(-1).long()
    return {"loss": F.cross_entropy(logits.view(-1, VOCAB).float(), labels)}


GPT = partial(Recipe, build=Gpt, dataset=TEXT, outputs=next_token)


class Encoder(nn.Module):
    """Bidirectional attention that does not look at padding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids, mask):
        place = torch.arange(ids.shape[1], device=ids.device, dtype=torch.int32)
        x = self.tokens(ids) + self.positions(place)
        hidden = (1.0 - mask.float())[:, None, None, :] * -1e4
        for block in self.blocks:
            x = block(x, hidden)
        return self.head(self.norm(x))


MASKED_TEXT = Samples(
    fields={
        "input_ids": integers(LENGTH),
        "attention_mask": Field(shape=(LENGTH,), kind="prefix_mask", dtype=torch.int32),
        "labels": integers(LENGTH),
    }
)


def masked_tokens(model, batch):
    """Mean cross entropy over the tokens that are not padding."""
    mask = batch["attention_mask"]
    logits = model(batch["input_ids"], mask)
    losses = F.cross_entropy(
        logits.view(-1, VOCAB).float(), batch["labels"].view(-1).long(), reduction="none"
    )
    weight = mask.view(-1).float()
    return {"loss": (losses * weight).sum() / weight.sum()}


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (wide * scale).to(x.dtype) * self.weight.to(x.dtype)


def rotate(x, angles):
    """Rotary position embedding: turn pairs (i, i + half) of each head by the position's angles."""
    first, second = x.float().chunk(2, dim=-1)
    cos, sin = torch.cos(angles), torch.sin(angles)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)


class LlamaBlock(nn.Module):
    """RMSNorm, rotary grouped-query attention (4 query heads on 2 key heads), SwiGLU."""

    QUERIES, KEYS, SIZE = 4, 2, WIDTH // 4

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(WIDTH), RmsNorm(WIDTH)
        self.query = nn.Linear(WIDTH, self.QUERIES * self.SIZE, bias=False)
        self.key = nn.Linear(WIDTH, self.KEYS * self.SIZE, bias=False)
        self.value = nn.Linear(WIDTH, self.KEYS * self.SIZE, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def attend(self, x, angles, mask):
        batch, length, _ = x.shape
        query = self.query(x).view(batch, length, self.QUERIES, self.SIZE).transpose(1, 2)
        key = self.key(x).view(batch, length, self.KEYS, self.SIZE).transpose(1, 2)
        value = self.value(x).view(batch, length, self.KEYS, self.SIZE).transpose(1, 2)
        query, key = rotate(query, angles), rotate(key, angles)
        key, value = (self.repeat(kv) for kv in (key, value))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.SIZE)
        weights = F.softmax(scores.float() + mask, dim=-1).to(value.dtype)
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, WIDTH)
        return self.out(mixed)

    def repeat(self, kv):
        batch, heads, length, size = kv.shape
        shape = (batch, heads, self.QUERIES // self.KEYS, length, size)
        return kv[:, :, None].expand(shape).reshape(batch, self.QUERIES, length, size)

    def forward(self, x, angles, mask):
        x = x + self.attend(self.norm1(x), angles, mask)
        normed = self.norm2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(LlamaBlock() for _ in range(2))
        self.norm = RmsNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        half = LlamaBlock.SIZE // 2
        self.register_buffer("frequencies", 100.0 ** (-torch.arange(half).float() / half))

    def forward(self, ids):
        place = torch.arange(LENGTH, device=ids.device, dtype=torch.float32)
        angles = place[:, None] * self.frequencies[None, :]
        future = torch.triu(torch.ones(LENGTH, LENGTH, device=ids.device), diagonal=1)
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, angles, future * -1e4)
        return self.head(self.norm(x))


# --------------------------------------------------------------------------- recipes

SCALER = {"loss_scale": "dynamic", "init_scale": 2.0**10, "max_loss_scale": 2.0**15}

SPARSE = [
    {"param_filter": "*up.weight", "algorithm": "static", "sparsity": 0.75},
    {
        "param_filter": "*down.weight",
        "algorithm": "gmp",
        "schedule": {"type": "linear", "init": 0.25, "slope": 0.125},
        "update": {"freq": 1},
    },
    {
        "param_filter": "*attention*weight",
        "algorithm": "rigl",
        "sparsity": 0.5,
        "update": {"freq": 2},
        "drop_fraction": 0.25,
        "balance_out_groups": 2,
    },
]
"""Every algorithm but SET, which draws what it grows: no two backends draw alike."""

RECIPES: dict[str, Recipe] = {
    "mlp_sgd": MLP(optimizer=optimizer("SGD", lr=0.1)),
    "mlp_momentum": MLP(optimizer=optimizer("SGD", lr=0.1, momentum=0.9, weight_decay=0.01)),
    "cnn_bn_pool": Recipe(
        build=Cnn,
        dataset=IMAGES,
        outputs=classify,
        optimizer=optimizer("SGD", lr=0.05, momentum=0.9),
    ),
    "gpt_adamw": GPT(
        optimizer=adamw,
        scheduler=warmup_then_decay,
        grad_scaler=SCALER,
        max_gradient_norm=0.5,
    ),
    "dynamic_loss_scale": MLP(
        # The second batch of eight (the third and fourth of four) overflows: 2**100 * 1e12 > f32.
        dataset=Samples(fields=VECTORS.fields, overflowing=range(8, 16)),
        optimizer=optimizer("AdamW", lr=0.01),
        grad_scaler={
            "loss_scale": "dynamic",
            "init_scale": 2.0**100,
            "max_loss_scale": 2.0**101,
            "steps_per_increase": 1,
        },
    ),
    "tied_embeddings": GPT(build=partial(Gpt, tied=True), optimizer=adamw),
    "encoder_masks": Recipe(
        build=Encoder,
        dataset=MASKED_TEXT,
        outputs=masked_tokens,
        optimizer=optimizer("AdamW", lr=0.01),
    ),
    "llama_like": Recipe(
        build=Llama, dataset=TEXT, outputs=next_token, optimizer=adamw, max_gradient_norm=1.0
    ),
    "routed_experts": GPT(build=routed_gpt, optimizer=adamw, max_gradient_norm=1.0),
    "sparse_gpt": GPT(optimizer=adamw, max_gradient_norm=1.0, sparsity=SPARSE),
    "dropout": Recipe(
        build=DropoutProbe,
        dataset=Samples(
            fields=(Field(shape=(8,)), Field(shape=(256,), scale=0.0, offset=1.0), integers(high=4))
        ),
        outputs=classify_and_probe,
        optimizer=optimizer("SGD", lr=0.1),
    ),
    "dropout_adamw": MLP(build=lambda: Mlp(width=64, dropout=0.25), optimizer=adamw),
}
