"""Samples of operations that move, select or combine elements."""

# ruff: noqa: PLW0108 - mixed precision replaces functions, so they are looked up when called

from __future__ import annotations

import cerebras.pytorch as cstorch
import torch
import torch.nn.functional as F
from torch import nn

from catalog.probes import index, normal, op

GRID = (3, 4)

MOVEMENT = {
    "cat": op(lambda x: torch.cat((x, x * 2), dim=1), shape=GRID),
    "cat_batch": op(lambda x: torch.cat((x, x * 2), dim=0), shape=GRID),
    "split": op(lambda x: torch.split(x, [1, 2], dim=1)[1], shape=GRID),
    "split_all": op(lambda x: sum(k * p for k, p in enumerate(x.split(2, -1), 1)), shape=GRID),
    "chunk": op(lambda x: torch.mul(*torch.chunk(x, 2, dim=-1)), shape=GRID),
    "stack": op(lambda x: torch.stack((x, x * 2), dim=1), shape=GRID),
    "unbind": op(lambda x: sum(k * p for k, p in enumerate(x.unbind(1), 1)), shape=GRID),
    "permute": op(lambda x: x.permute(0, 2, 1) + 1, shape=GRID),
    "transpose_batch": op(lambda x: x.transpose(0, 1) * 2, shape=GRID),
    "reshape": op(lambda x: x.reshape(-1, 6) * 2, shape=GRID),
    "flatten": op(lambda x: torch.flatten(x, 1) * 2, shape=GRID),
    "unflatten": op(lambda x: x.unflatten(-1, (2, 2)).sum(-1), shape=GRID),
    "squeeze": op(lambda x: x[:, :1].squeeze(1) * 2, shape=GRID),
    "unsqueeze": op(lambda x: x.unsqueeze(1) * 2, shape=GRID),
    "expand": op(lambda x: x[:, None].expand(-1, 2, -1, -1) * 1, shape=GRID),
    "repeat": op(lambda x: x.repeat(1, 2, 1), shape=GRID),
    "repeat_batch": op(lambda x: x.repeat(2, 1, 1), shape=GRID),
    "tile": op(lambda x: torch.tile(x, (1, 1, 2)), shape=GRID),
    "repeat_interleave": op(lambda x: x.repeat_interleave(2, dim=1), shape=GRID),
    "pad_constant": op(lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), shape=GRID),
    "pad_negative": op(lambda x: F.pad(x, (-1, 1)), shape=GRID),
    "pad_reflect": op(lambda x: F.pad(x, (1, 2), mode="reflect"), shape=GRID),
    "pad_replicate": op(lambda x: F.pad(x, (1, 2), mode="replicate"), shape=GRID),
    "pad_circular": op(lambda x: F.pad(x, (1, 2), mode="circular"), shape=GRID),
    "roll": op(lambda x: torch.roll(x, 1, dims=1), shape=GRID),
    "flip": op(lambda x: torch.flip(x, dims=(1, 2)), shape=GRID),
    "tril": op(lambda x: torch.tril(x), shape=(4, 4)),
    "triu": op(lambda x: torch.triu(x, diagonal=1), shape=(4, 4)),
    "diagonal": op(lambda x: torch.diagonal(x, dim1=1, dim2=2), shape=(4, 4)),
    "diag_embed": op(lambda x: torch.diag_embed(x), shape=(4,)),
    "narrow": op(lambda x: x.narrow(1, 1, 2), shape=GRID),
    "select": op(lambda x: x.select(1, 1), shape=GRID),
    "select_last": op(lambda x: x[:, -1], shape=GRID),
    "slice_step": op(lambda x: x[:, :, ::2], shape=GRID),
    "slice_batch": op(lambda x: x[1:], shape=GRID),
    "slice_assign": op(lambda x: _with_slice(x), shape=GRID),
    "unfold": op(lambda x: x.unfold(-1, 2, 1), shape=GRID),
    "im2col": op(lambda x: F.unfold(x, 2), shape=(2, 3, 3)),
    "pixel_shuffle": op(
        lambda x: F.pixel_shuffle(x, 2), shape=(4, 2, 2), lost="the values: its result is zeros"
    ),
    "arange": op(lambda x: x * torch.arange(4, device=x.device, dtype=x.dtype), shape=GRID),
    "linspace": op(lambda x: x * torch.linspace(0, 1, 4, device=x.device), shape=GRID),
    "eye": op(lambda x: x * torch.eye(4, device=x.device), shape=(4, 4)),
    "meshgrid": op(lambda x: _with_meshgrid(x), shape=GRID),
    "causal_mask": op(lambda x: x.masked_fill(_future(x), -4.0), shape=(4, 4)),
    "buffer": op(
        lambda m, x: x * m.table,
        make=lambda: _with_buffer(torch.arange(12.0).view(3, 4)),
        shape=GRID,
    ),
}


def _with_slice(x):
    """Overwrite part of a copy."""
    copy = x * 2
    copy[:, 1] = x[:, 0]
    return copy


def _with_meshgrid(x):
    """Multiply by row plus column."""
    rows, columns = torch.meshgrid(
        torch.arange(3, device=x.device), torch.arange(4, device=x.device), indexing="ij"
    )
    return x * (rows + columns).to(x.dtype)


def _future(x):
    """Return a boolean mask of the positions after each row's own."""
    ones = torch.ones(x.shape[-2:], device=x.device, dtype=torch.int32)
    return torch.triu(ones, diagonal=1) > 0


def _with_buffer(table):
    """Return a module with a buffer, which is a state argument that no step changes."""
    module = nn.Module()
    module.register_buffer("table", table)
    return module


ROW = {"i": index(5, high=8)}
ROWS = {"i": index(2, 4, high=3)}

THREE, EDGES = torch.tensor([3, 1, 1]), torch.tensor([-1.0, 0.0, 1.0])
SCALES = torch.tensor([1.0, -2.0, 0.5, 3.0])

INDEXING = {
    "one_hot_of_client": op(
        lambda x, i: x * cstorch.nn.functional.one_hot(i.long(), 8).sum(1).to(x.dtype),
        fields={"i": index(3, high=8)},
    ),
    "constant_tensor": op(lambda x: x * cstorch.make_constant(SCALES), shape=GRID),
    "one_hot": op(
        lambda x, i: x * F.one_hot(i.long(), 8).sum(1).to(x.dtype), fields={"i": index(3, high=8)}
    ),
    "gather": op(lambda x, i: torch.gather(x, 1, i.long()), fields=ROW),
    "gather_middle_axis": op(lambda x, i: torch.gather(x, 1, i.long()), shape=GRID, fields=ROWS),
    "take_along_dim": op(lambda x, i: torch.take_along_dim(x, i.long(), 1), fields=ROW),
    "index_select": op(
        lambda m, x: torch.index_select(x, 1, m.table), make=lambda: _with_buffer(THREE)
    ),
    "index_add": op(
        lambda x, i: torch.index_add(x, 1, i[0].long(), x[:, :3]), fields={"i": index(3, high=8)}
    ),
    "index_one_list": op(lambda x, i: x[:, i[0].long()], fields=ROW),
    "index_two_lists": op(
        lambda x, i, j: x[i.long(), j.long()], fields={"i": index(high=4), "j": index(high=8)}
    ),
    "index_put": op(lambda x, i: _with_index_put(x, i), fields={"i": index(high=8)}),
    "scatter": op(
        lambda x, i: (x * 2).scatter(1, i.long(), x[:, :1]), fields={"i": index(1, high=8)}
    ),
    "scatter_value": op(lambda x, i: x.scatter(1, i.long(), 2.0), fields={"i": index(1, high=8)}),
    "scatter_add": op(lambda x, i: x.scatter_add(1, i.long(), x[:, :5]), fields=ROW),
    "scatter_reduce_amax": op(
        lambda x, i: x.scatter_reduce(1, i.long(), x[:, :5], "amax"), fields=ROW
    ),
    "embedding": op(
        lambda m, x, i: m(i) * x[:, None],
        make=lambda: nn.Embedding(16, 8),
        fields={"i": index(3, high=16)},
    ),
    "embedding_padding_idx": op(
        lambda m, x, i: m(i) * x[:, None],
        make=lambda: nn.Embedding(16, 8, padding_idx=2),
        fields={"i": index(3, high=16)},
    ),
    "embedding_int64": op(
        lambda m, x, i: m(i) * x[:, None],
        make=lambda: nn.Embedding(16, 8),
        fields={"i": index(3, high=16, dtype=torch.int64)},
    ),
    "embedding_bag": op(
        lambda m, x, i: m(i) * x,
        make=lambda: nn.EmbeddingBag(16, 8, mode="sum"),
        fields={"i": index(3, high=16)},
    ),
    "bucketize": op(
        lambda x, v: x * torch.bucketize(v, EDGES.to(v.device)),
        fields={"v": normal(8)},
    ),
    "nonzero": op(lambda x: torch.nonzero(x).float()),
}


def _with_index_put(x, i):
    """Overwrite one element of every row of a copy."""
    copy = x * 2
    copy[torch.arange(4, device=x.device), i.long()] = x[:, 0]
    return copy
