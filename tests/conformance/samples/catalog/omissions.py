"""Samples of what PyTorch leaves out without a word.

Ignored labels, rows without any label, padding, masks that hide a whole row, numbers that are not
numbers, sums beyond the type of what is added up, and the points at which a derivative is agreed
upon rather than computed.
"""

# ruff: noqa: PLW0108 - mixed precision replaces functions, so they are looked up when called

from __future__ import annotations

import cerebras.pytorch as cstorch
import torch
import torch.nn.functional as F
from data import Field
from torch import nn

from catalog.probes import bits, index, loss, normal, op

CLASSES = 8
WEIGHTS = torch.arange(1.0, 9.0)
NAN, INFINITY = float("nan"), float("inf")


def chosen(*shape: int, among, dtype: torch.dtype = torch.int32) -> Field:
    """A field of numbers drawn from `among`."""
    return Field(shape=shape, kind="choices", choices=tuple(among), dtype=dtype)


def partly(*shape: int, left_out: int, dtype: torch.dtype = torch.int32) -> Field:
    """Labels of eight classes, of which about a third is `left_out`."""
    return chosen(*shape, among=(*range(CLASSES), *[left_out] * 4), dtype=dtype)


IGNORED = {"labels": partly(left_out=-100)}
ALL_IGNORED = {"labels": chosen(among=[-100])}
SEQUENCE = {"labels": partly(5, left_out=-100)}


def cross_entropy(fields, shape=(CLASSES,), **options):
    """A sample of cross entropy with labels of the field `labels`."""
    return loss(
        lambda x, labels: F.cross_entropy(
            x, labels.long(), **{k: v(x) if callable(v) else v for k, v in options.items()}
        ),
        shape=shape,
        fields=fields,
    )


def weights(_x):
    """Class weights, a constant of the program."""
    return cstorch.make_constant(WEIGHTS)


def shifted(x, labels):
    """The loss of a language model: every position predicts the next one's label."""
    return F.cross_entropy(x[:, :-1].reshape(-1, CLASSES).float(), labels[:, 1:].reshape(-1).long())


def mean_over_labelled(x, labels):
    """A mean over the labelled rows, by hand."""
    each = F.cross_entropy(x, labels.long(), reduction="none")
    used = (labels != -100).to(each.dtype)
    return (each * used).sum() / used.sum()


CROSS_ENTROPY = {
    "labels": cross_entropy(IGNORED),
    "labels_sum": cross_entropy(IGNORED, reduction="sum"),
    "labels_none": loss(
        lambda x, labels: (F.cross_entropy(x, labels.long(), reduction="none").float() ** 2).mean(),
        fields=IGNORED,
    ),
    "labels_none_mean": loss(
        lambda x, labels: F.cross_entropy(x, labels.long(), reduction="none").mean(),
        fields=IGNORED,
    ),
    "labels_sum_divided": loss(
        lambda x, labels: F.cross_entropy(x, labels.long(), reduction="sum") / 4, fields=IGNORED
    ),
    "labels_none_mean_by_hand": loss(mean_over_labelled, fields=IGNORED),
    "labels_of_channels": cross_entropy(SEQUENCE, shape=(CLASSES, 5)),
    "labels_of_transposed": loss(
        lambda x, labels: F.cross_entropy(x.transpose(1, 2), labels.long()),
        shape=(5, CLASSES),
        fields=SEQUENCE,
    ),
    "labels_of_images": cross_entropy(
        {"labels": partly(3, 2, left_out=-100)}, shape=(CLASSES, 3, 2)
    ),
    "labels_shifted": loss(shifted, shape=(5, CLASSES), fields=SEQUENCE),
    "labels_module": loss(
        lambda m, x, labels: m(x, labels.long()), make=nn.CrossEntropyLoss, fields=IGNORED
    ),
    "labels_smoothed": cross_entropy(IGNORED, label_smoothing=0.125),
    "labels_smoothed_sum": cross_entropy(IGNORED, label_smoothing=0.125, reduction="sum"),
    "labels_weighted": cross_entropy(IGNORED, weight=weights),
    "labels_weighted_sum": cross_entropy(IGNORED, weight=weights, reduction="sum"),
    "labels_weighted_smoothed": cross_entropy(IGNORED, weight=weights, label_smoothing=0.125),
    "labels_two_losses": loss(
        lambda x, labels: (
            F.cross_entropy(x, labels.long()) + 0.5 * F.cross_entropy(2 * x, labels.long())
        ),
        fields=IGNORED,
    ),
    "labels_255": cross_entropy({"labels": partly(left_out=255)}, ignore_index=255),
    "labels_0": cross_entropy({"labels": partly(left_out=0)}, ignore_index=0),
    "labels_5_smoothed": cross_entropy(
        {"labels": partly(left_out=5)}, ignore_index=5, label_smoothing=0.125
    ),
    "labels_5_weighted": cross_entropy(
        {"labels": partly(left_out=5)}, ignore_index=5, weight=weights
    ),
    "labels_all": cross_entropy(ALL_IGNORED),
    "labels_all_sum": cross_entropy(ALL_IGNORED, reduction="sum"),
    "labels_all_clamped": loss(
        lambda x, labels: (
            F.cross_entropy(x, labels.long(), reduction="sum") / (labels != -100).sum().clamp(min=1)
        ),
        fields=ALL_IGNORED,
    ),
    "labels_masked_first": loss(
        lambda x, labels: F.cross_entropy(
            x, labels.long().masked_fill(labels == 3, -100), reduction="mean"
        ),
        fields={"labels": index(high=CLASSES)},
    ),
    "labels_where": loss(
        lambda x, labels, keep: F.cross_entropy(
            x.reshape(-1, CLASSES), torch.where(keep > 0, labels.long(), -100).reshape(-1)
        ),
        shape=(5, CLASSES),
        fields={
            "labels": index(5, high=CLASSES),
            "keep": Field(shape=(5,), kind="prefix_mask", dtype=torch.int32),
        },
    ),
}

LIKELIHOOD = {
    "nll": loss(lambda x, labels: F.nll_loss(F.log_softmax(x, -1), labels.long()), fields=IGNORED),
    "nll_raw": loss(lambda x, labels: F.nll_loss(F.relu(x), labels.long()), fields=IGNORED),
    "bce_weights": loss(
        lambda x, bit, keep: F.binary_cross_entropy_with_logits(
            x, bit.float(), weight=keep.float()
        ),
        fields={"bit": bits(8), "keep": bits(8)},
    ),
    "bce_at_the_ends": loss(
        lambda x, bit: F.binary_cross_entropy(x.float().clamp(0, 1), bit.float()),
        fields={"bit": bits(8)},
    ),
    "bce_logits_large": loss(
        lambda x, bit: F.binary_cross_entropy_with_logits(x.float() * 64, bit.float()),
        fields={"bit": bits(8)},
    ),
    "kl_div_of_zeros": loss(
        lambda x, target: F.kl_div(F.log_softmax(x, -1), F.relu(target), reduction="sum"),
        fields={"target": normal(8)},
    ),
    "xlogy_of_zeros": loss(
        lambda x, count: torch.xlogy(count.float(), F.relu(x.float()) + count.float()).mean(),
        fields={"count": index(8, high=2)},
    ),
    "multilabel_margin": loss(
        lambda x, labels: F.multilabel_margin_loss(x, labels.long()),
        fields={"labels": chosen(8, among=[-1])},
    ),
}

PADDING = {
    "embedding_last": op(
        lambda m, x, i: m(i) * x[:, None],
        make=lambda: nn.Embedding(16, 8, padding_idx=-1),
        fields={"i": chosen(3, among=(1, 2, 15, 15))},
    ),
    "embedding_all": op(
        lambda m, x, i: m(i) * x[:, None] + 1.0,
        make=lambda: nn.Embedding(16, 8, padding_idx=0),
        fields={"i": chosen(3, among=[0])},
    ),
    "embedding_function": op(
        lambda m, x, i: F.embedding(i, m.weight, padding_idx=3) * x[:, None],
        make=lambda: nn.Embedding(16, 8),
        fields={"i": index(3, high=4)},
    ),
    "embedding_by_frequency": op(
        lambda m, x, i: m(i) * x[:, None],
        make=lambda: nn.Embedding(16, 8, scale_grad_by_freq=True),
        fields={"i": index(3, high=4)},
    ),
    "embedding_repeated": op(
        lambda m, x, i: m(i) * x[:, None],
        make=lambda: nn.Embedding(16, 8),
        fields={"i": chosen(3, among=[7])},
    ),
}

HIDDEN_ROWS = {
    "attention_of_no_key": op(
        lambda x, keep: torch.softmax(x.masked_fill(keep[:, None] == 0, -INFINITY).float(), -1),
        shape=(2, 4),
        fields={"keep": chosen(4, among=(0, 0, 0, 1))},
    ),
    "attention_of_no_key_finite": op(
        lambda x, keep: torch.softmax(x.masked_fill(keep[:, None] == 0, -30000.0), -1),
        shape=(2, 4),
        fields={"keep": chosen(4, among=(0, 0, 0, 1))},
    ),
    "scaled_attention_of_no_key": op(
        lambda x, keep: F.scaled_dot_product_attention(
            x[:, None], x[:, None], x[:, None], attn_mask=(keep > 0)[:, None, None]
        ),
        shape=(4, 16),
        fields={"keep": chosen(4, among=(0, 0, 0, 1))},
    ),
    "logsumexp_of_nothing": op(
        lambda x, keep: torch.exp(torch.logsumexp(x.float().masked_fill(keep == 0, -INFINITY), -1)),
        fields={"keep": chosen(8, among=[0] * 8 + [1])},
    ),
    "log_softmax_of_nothing": op(
        lambda x, keep: F.log_softmax(x.float().masked_fill(keep == 0, -INFINITY), -1).exp(),
        fields={"keep": chosen(8, among=[0] * 8 + [1])},
    ),
    "mean_of_nothing": loss(
        lambda x, keep: (x.float() * keep.float()).sum() / keep.float().sum(),
        fields={"keep": chosen(8, among=[0])},
    ),
    "amax_of_nothing": op(
        lambda x, keep: x.masked_fill(keep == 0, -30000.0).amax(-1) / 30000,
        fields={"keep": chosen(8, among=[0] * 4 + [1])},
    ),
    "cumsum_of_mask": op(
        lambda x, keep: x * (torch.cumsum(keep, -1) * keep).to(x.dtype),
        fields={"keep": chosen(8, among=(0, 1))},
    ),
}

HOLES = {"other": chosen(8, among=(1, NAN, -2, 0), dtype=torch.float32)}


def beside(*functions):
    """A sample of functions of a tensor with holes that are not numbers, one beside the other."""
    return op(
        lambda x, other: torch.cat(
            [f(other).float().expand(-1, 8) * x.float() for f in functions], dim=-1
        ),
        fields=HOLES,
    )


NOT_NUMBERS = {
    "nansum": op(lambda x, other: torch.nansum(x.float() * other, -1), fields=HOLES),
    "nan_to_num": op(lambda x, other: torch.nan_to_num(x.float() + other, nan=0.5), fields=HOLES),
    "nan_replaced": beside(
        lambda z: torch.where(torch.isnan(z), 0.0, z),
        lambda z: z.masked_fill(torch.ne(z, z), 3.0),
        lambda z: torch.where(torch.isfinite(z), z, 1.0),
    ),
    "nan_pointwise": beside(
        lambda z: F.relu(z),
        lambda z: z.clamp(-1, 1),
        lambda z: z.clamp(min=0),
        lambda z: torch.maximum(z, torch.zeros_like(z)),
        lambda z: torch.minimum(torch.zeros_like(z), z),
        lambda z: torch.sign(z),
    ),
    "nan_compared": beside(
        lambda z: z > 0, lambda z: z != 1, lambda z: torch.eq(z, z), lambda z: z.bool()
    ),
    "nan_in_extrema": beside(
        lambda z: z.amax(-1, keepdim=True),
        lambda z: z.amin(-1, keepdim=True),
        lambda z: z.max(-1, keepdim=True)[0],
        lambda z: z.argmax(-1, keepdim=True),
        lambda z: z.argmin(-1, keepdim=True),
    ),
    "nan_in_order": beside(
        lambda z: z.sort(-1)[0],
        lambda z: z.sort(-1, descending=True)[0],
        lambda z: torch.topk(z, 8, largest=False)[0],
    ),
}

ZEROS = {"other": chosen(8, among=(-1, 0, 0, 1, 2), dtype=torch.float32)}


def at(*functions):
    """A sample of functions of numbers many of which are zero; their gradients are added."""
    return op(
        lambda x, other: torch.cat(
            [f((x.float() - x.float().detach()) + other) for f in functions], dim=-1
        ),
        fields=ZEROS,
    )


DERIVATIVES = {
    "at_kinks": at(
        lambda z: F.relu(z),
        lambda z: 2 * z.abs(),
        lambda z: 4 * torch.sign(z) * z,
        lambda z: 8 * F.leaky_relu(z, 0.25),
        lambda z: 16 * F.elu(z),
        lambda z: 32 * F.l1_loss(z, torch.zeros_like(z), reduction="none"),
    ),
    "at_bounds": at(
        lambda z: z.clamp(-1, 1),
        lambda z: 2 * z.clamp(min=0),
        lambda z: 4 * F.hardtanh(z),
        lambda z: 8 * F.relu6(z),
        lambda z: 16 * torch.maximum(z, torch.zeros_like(z)),
        lambda z: 32 * torch.minimum(z, torch.zeros_like(z)),
    ),
    "at_softplus": at(lambda z: F.softplus(z * 32)),
    "at_equal_extrema": at(
        lambda z: z.amax(-1, keepdim=True) + z, lambda z: 2 * z.amin(-1, keepdim=True)
    ),
    "at_equal_extrema_of_both_axes": at(lambda z: z.amax((0, 1)).reshape(1, 1).expand(4, 1) + z),
    "at_equal_maximum_of_dim": at(lambda z: z.max(-1, keepdim=True)[0] + z),
    "at_maximum_of_all": at(lambda z: z.max() + z),
    "at_norms": at(
        lambda z: torch.linalg.vector_norm(F.relu(z)[:, :2], dim=-1, keepdim=True),
        lambda z: (z[:, :4] * 0).norm(dim=-1, keepdim=True),
        lambda z: F.normalize(F.relu(z)[:, :2], dim=-1),
        lambda z: F.normalize(z[:, :4] * 0, dim=-1),
        lambda z: F.cosine_similarity(F.relu(z)[:, :2], z[:, 2:4], dim=-1)[:, None],
    ),
    "at_powers": at(
        lambda z: z[:, :3].prod(-1, keepdim=True),
        lambda z: z**3,
        lambda z: z**0,
        lambda z: torch.where(z > 0, (z.abs() + 0.0009765625).sqrt(), z),
    ),
    "at_max_pool": op(
        lambda x, other: F.max_pool1d((x.float() - x.float().detach()) + other, 2),
        shape=(2, 8),
        fields={"other": chosen(2, 8, among=(0, 1), dtype=torch.float32)},
    ),
    "at_deviation_of_one": op(lambda x: x[:, :1].float().std(-1) + x.float().sum(-1)),
    "at_whole_numbers": op(
        lambda x, i: x.float() * (i // 3).float() + (i % 3).float() * x.float(),
        fields={"i": chosen(8, among=(-7, -3, -1, 0, 2, 3))},
    ),
    "at_remainders": op(
        lambda x, other: (
            x.float() * torch.remainder(other, 0.75)
            + torch.fmod(other, 0.75)
            + torch.round(other * 0.5)
        ),
        fields=ZEROS,
    ),
}

PLACES = {
    "index_negative": op(
        lambda x, i: x[torch.arange(4, device=x.device), i.long()],
        fields={"i": chosen(among=(-1, -3, 0, 2))},
    ),
    "index_negative_rows": op(
        lambda m, x, i: m.weight[i.long()] * x[:, None],
        make=lambda: nn.Embedding(16, 8),
        fields={"i": chosen(3, among=(-1, -3, 0, 2))},
    ),
    "index_put_negative": op(lambda x, i: _put(x, i), fields={"i": chosen(among=(-1, -3, 0, 2))}),
    "index_put_twice": op(lambda x, i: _add(x, i), fields={"i": chosen(among=(0, 2))}),
    "scatter_add_twice": op(
        lambda x, i: x.scatter_add(1, i.long(), x[:, :5]), fields={"i": chosen(5, among=(0, 2))}
    ),
    "one_hot_outside": op(
        lambda x, i: (
            x * (F.one_hot(i.long().clamp(min=0), 8) * (i >= 0)[..., None]).sum(1).to(x.dtype)
        ),
        fields={"i": chosen(3, among=(-100, 0, 7))},
    ),
    "masked_gather": op(
        lambda x, i: torch.gather(x, 1, i.long().clamp(min=0)) * (i >= 0).to(x.dtype),
        fields={"i": chosen(5, among=(-100, 0, 7))},
    ),
    "masked_select_sum": op(
        lambda x, keep: torch.where(keep > 0, x, torch.zeros_like(x)).sum(-1),
        fields={"keep": chosen(8, among=(0, 0, 1))},
    ),
    "bucketize_like": op(
        lambda x, other: (
            x * (other[..., None] > torch.arange(3, device=x.device)).sum(-1).to(x.dtype)
        ),
        fields=ZEROS,
    ),
}


SIXTEEN_BITS = {"i": chosen(8, among=(30000, 20000), dtype=torch.int16)}

WHOLE_NUMBERS = {
    "sums_beyond_16_bits": op(
        lambda x, i: (
            x * (i.sum(-1, keepdim=True).float() + i.cumsum(-1).float() + i.sum().float()) / 65536
        ),
        fields=SIXTEEN_BITS,
    ),
    "sums_beyond_32_bits": op(
        lambda x, i: x * (i.sum(-1, keepdim=True).float() + i.cumsum(-1).float()) / 2**32,
        fields={"i": chosen(8, among=(2**30, 2**30 + 64))},
    ),
    "products_beyond_32_bits": op(
        lambda x, i: x * (i.prod(-1, keepdim=True).float() + i.cumprod(-1).float()) / 2**32,
        fields={"i": chosen(8, among=(-30, 20, 25))},
    ),
    "remainders_of_whole_numbers": op(
        lambda x, i: (
            x * torch.fmod(i, 3) + torch.fmod(i, -4) + 8 * (torch.remainder(i, 5) + i // 3)
        ),
        fields={"i": chosen(8, among=(-7, -3, -1, 0, 2, 5))},
    ),
}


UNEQUAL_WINDOWS = {
    "adaptive_means": op(
        lambda x: F.adaptive_avg_pool2d(x, (3, 4)) + F.adaptive_avg_pool2d(x, (4, 3)).mT,
        shape=(2, 8, 6),
    ),
    "adaptive_means_of_volumes": op(
        lambda x: F.adaptive_avg_pool3d(x, (2, 2, 3)), shape=(2, 3, 4, 5)
    ),
    "adaptive_means_of_lines": op(lambda x: F.adaptive_avg_pool1d(x, 3), shape=(2, 7)),
}


def _put(x, i):
    """Overwrite one place of each row, counted from either end."""
    copy = x * 2
    copy[torch.arange(4, device=x.device), i.long()] = x[:, 0]
    return copy


def _add(x, i):
    """Add to places that occur more than once."""
    return (x * 2).index_put((i.long(),), x, accumulate=True)


OMISSIONS = CROSS_ENTROPY | LIKELIHOOD | PADDING | HIDDEN_ROWS
OMISSIONS |= NOT_NUMBERS | DERIVATIVES | PLACES | WHOLE_NUMBERS | UNEQUAL_WINDOWS
