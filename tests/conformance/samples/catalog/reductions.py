"""Samples of reductions, scans, sorting, and matrix products."""

# ruff: noqa: PLW0108 - mixed precision replaces functions, so they are looked up when called

from __future__ import annotations

import torch

from catalog.probes import bits, index, normal, op

SQUARE = (4, 6)

REDUCTIONS = {
    "sum": op(lambda x: x.sum(-1), shape=SQUARE),
    "sum_keepdim": op(lambda x: x.sum(1, keepdim=True), shape=SQUARE),
    "sum_two_axes": op(lambda x: x.sum((1, 2)), shape=SQUARE),
    "sum_all": op(lambda x: x.sum().reshape(1), shape=SQUARE),
    "sum_over_batch": op(lambda x: x.sum(0), shape=SQUARE),
    "sum_int": op(lambda x, a: x * a.sum(-1, keepdim=True).float(), fields={"a": index(8, high=4)}),
    "mean": op(lambda x: x.mean(-1), shape=(4, 8)),
    "mean_all": op(lambda x: x.mean().reshape(1), shape=(4, 8)),
    "mean_over_batch": op(lambda x: x - x.mean(0, keepdim=True)),
    "prod": op(lambda x: x.prod(-1), shape=(4, 3)),
    "amax": op(lambda x: x.amax(-1), shape=SQUARE),
    "amin": op(lambda x: x.amin(-1), shape=SQUARE),
    "amax_two_axes": op(lambda x: x.amax((1, 2)), shape=SQUARE),
    "max_all": op(lambda x: x.max().reshape(1), shape=SQUARE),
    "min_all": op(lambda x: x.min().reshape(1), shape=SQUARE),
    "max_with_index": op(lambda x: sum(x.max(-1)), shape=SQUARE),
    "min_with_index": op(lambda x: sum(x.min(-1)), shape=SQUARE),
    "argmax": op(lambda x: x * x.argmax(-1, keepdim=True).float()),
    "argmin": op(lambda x: x * x.argmin(-1, keepdim=True).float()),
    "any": op(lambda x, a: x * a.any(-1, keepdim=True).to(x.dtype), fields={"a": bits(8)}),
    "all": op(lambda x, a: x * a[:, :2].all(-1, keepdim=True).to(x.dtype), fields={"a": bits(8)}),
    "any_all_axes": op(lambda x, a: x * a.any().to(x.dtype), fields={"a": bits(8)}),
    "var": op(lambda x: x.var(-1), shape=SQUARE),
    "var_biased": op(lambda x: x.var(-1, unbiased=False, keepdim=True), shape=SQUARE),
    "std": op(lambda x: x.std(-1), shape=SQUARE),
    "var_mean": op(lambda x: sum(torch.var_mean(x, -1)), shape=SQUARE),
    "norm_l2": op(lambda x: x.norm(dim=-1), shape=SQUARE),
    "norm_l2_over_batch": op(lambda x: x.norm(dim=0)),
    "norm_l2_all": op(lambda x: x.norm().reshape(1), shape=SQUARE),
    "norm_l1": op(lambda x: x.norm(p=1, dim=-1), shape=SQUARE),
    "norm_inf": op(lambda x: x.norm(p=float("inf"), dim=-1), shape=SQUARE),
    "vector_norm": op(lambda x: torch.linalg.vector_norm(x, dim=-1, keepdim=True), shape=SQUARE),
    "normalize": op(lambda x: torch.nn.functional.normalize(x, dim=-1), shape=SQUARE),
    "logsumexp": op(lambda x: torch.logsumexp(x, -1), shape=SQUARE),
    "cumsum": op(lambda x: torch.cumsum(x, 1), shape=SQUARE),
    "cumsum_int": op(lambda x, a: x * torch.cumsum(a, 1).float(), fields={"a": index(8, high=3)}),
    "cumprod": op(lambda x: torch.cumprod(x, 1), shape=SQUARE),
    "cummax": op(lambda x: torch.cummax(x, 1)[0], shape=SQUARE),
    "logcumsumexp": op(lambda x: torch.logcumsumexp(x, 1), shape=SQUARE),
    "topk": op(lambda x: torch.topk(x, 3, dim=-1)[0], shape=SQUARE),
    "topk_smallest": op(lambda x: torch.topk(x, 3, dim=-1, largest=False)[0], shape=SQUARE),
    "topk_indices": op(lambda x: x[..., :3] * torch.topk(x, 3)[1].float(), shape=SQUARE),
    "sort": op(lambda x: torch.sort(x, dim=-1)[0], shape=SQUARE),
    "argsort": op(lambda x: x * torch.argsort(x, dim=-1).float(), shape=SQUARE),
    "median": op(lambda x: torch.median(x, dim=-1)[0], shape=(4, 5)),
    "kthvalue": op(lambda x: torch.kthvalue(x, 2, dim=-1)[0], shape=SQUARE),
    "count_nonzero": op(lambda x: x * torch.count_nonzero(x > 0, dim=-1)[:, None].float()),
    "cdist": op(lambda x: torch.cdist(x, x + 1), shape=SQUARE),
}

MATRIX = {"m": normal(6, 8)}

PRODUCTS = {
    "mm": op(lambda x: torch.mm(x[:, 0], x[:, 1].t()), shape=(2, 6)),
    "mm_with_input": op(lambda x, m: torch.matmul(x, m), shape=(4, 6), fields=MATRIX),
    "bmm": op(lambda x: torch.bmm(x, x.transpose(1, 2)), shape=(4, 6)),
    "baddbmm": op(lambda x: torch.baddbmm(x[..., :4], x, x.transpose(1, 2)), shape=(4, 6)),
    "addmm": op(lambda x: torch.addmm(x[:, 0, :4], x[:, 0], x[:, 1].t()), shape=(2, 6)),
    "matmul_4d": op(lambda x: torch.matmul(x, x.transpose(-1, -2)), shape=(2, 3, 4)),
    "matmul_broadcast": op(lambda x: torch.matmul(x, x[0, 0].t()), shape=(2, 3, 4)),
    "matmul_vector": op(lambda x: torch.matmul(x, x[0, 0]), shape=(3, 4)),
    "dot": op(lambda x: torch.dot(x[0], x[1]).reshape(1)),
    "outer": op(lambda x: torch.outer(x[0], x[1])),
    "einsum_bilinear": op(lambda x: torch.einsum("bik,bjk->bij", x, x), shape=(4, 6)),
    "einsum_contract_two": op(lambda x: torch.einsum("bik,cik->bc", x, x), shape=(4, 6)),
    "einsum_heads": op(lambda x: torch.einsum("bqhd,bkhd->bhqk", x, x * 0.5), shape=(3, 2, 4)),
    "kron_by_broadcast": op(lambda x: x[:, :, None] * x[:, None, :]),
}
