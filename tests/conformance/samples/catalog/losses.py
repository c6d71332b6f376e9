"""Samples of loss functions, each on the output of a linear layer."""

# ruff: noqa: PLW0108 - mixed precision replaces functions, so they are looked up when called

from __future__ import annotations

import cerebras.pytorch as cstorch
import torch
import torch.nn.functional as F
from data import Field

from catalog.probes import bits, index, loss, normal

LABEL = {"labels": index(high=8)}
LABEL_64 = {"labels": index(high=8, dtype=torch.int64)}
TARGET = {"target": normal(8)}
WEIGHTS = torch.arange(1.0, 9.0)
PAIR = {"other": normal(8), "sign": index(high=2)}


def mean_of(values):
    """Return a scalar f32 loss."""
    return values.float().mean()


CROSS_ENTROPY = {
    "cross_entropy": loss(lambda x, labels: F.cross_entropy(x, labels.long()), fields=LABEL),
    "cross_entropy_int64": loss(lambda x, labels: F.cross_entropy(x, labels), fields=LABEL_64),
    "cross_entropy_sum": loss(
        lambda x, labels: F.cross_entropy(x, labels.long(), reduction="sum"), fields=LABEL
    ),
    "cross_entropy_none": loss(
        lambda x, labels: mean_of(F.cross_entropy(x, labels.long(), reduction="none") ** 2),
        fields=LABEL,
    ),
    "cross_entropy_ignore_index": loss(
        lambda x, labels: F.cross_entropy(x, labels.long() % 2, ignore_index=1), fields=LABEL
    ),
    "cross_entropy_label_smoothing": loss(
        lambda x, labels: F.cross_entropy(x, labels.long(), label_smoothing=0.125), fields=LABEL
    ),
    "cross_entropy_weights": loss(
        lambda x, labels: F.cross_entropy(x, labels.long(), weight=cstorch.make_constant(WEIGHTS)),
        fields=LABEL,
    ),
    "cross_entropy_soft_labels": loss(
        lambda x, target: F.cross_entropy(x, torch.softmax(target, -1)), fields=TARGET
    ),
    "cross_entropy_sequence": loss(
        lambda x, labels: F.cross_entropy(x, labels.long()),
        shape=(8, 3),
        fields={"labels": index(3, high=8)},
    ),
    "nll_loss": loss(
        lambda x, labels: F.nll_loss(F.log_softmax(x, -1), labels.long()), fields=LABEL
    ),
}

REGRESSION = {
    "mse_loss": loss(lambda x, target: F.mse_loss(x, target), fields=TARGET),
    "mse_loss_sum": loss(lambda x, target: F.mse_loss(x, target, reduction="sum"), fields=TARGET),
    "l1_loss": loss(lambda x, target: F.l1_loss(x, target), fields=TARGET),
    "smooth_l1_loss": loss(lambda x, target: F.smooth_l1_loss(x, target), fields=TARGET),
    "huber_loss": loss(lambda x, target: F.huber_loss(x, target, delta=0.5), fields=TARGET),
    "poisson_nll_loss": loss(lambda x, target: F.poisson_nll_loss(x, target.abs()), fields=TARGET),
    "gaussian_nll_loss": loss(
        lambda x, target: F.gaussian_nll_loss(x, target, target.abs() + 0.5), fields=TARGET
    ),
}

DISTRIBUTION = {
    "bce_with_logits": loss(
        lambda x, bit: F.binary_cross_entropy_with_logits(x, bit.float()), fields={"bit": bits(8)}
    ),
    "bce_with_logits_pos_weight": loss(
        lambda x, bit: F.binary_cross_entropy_with_logits(
            x, bit.float(), pos_weight=cstorch.make_constant(WEIGHTS)
        ),
        fields={"bit": bits(8)},
    ),
    "bce": loss(
        lambda x, bit: F.binary_cross_entropy(torch.sigmoid(x.float()), bit.float()),
        fields={"bit": bits(8)},
    ),
    "kl_div": loss(
        lambda x, target: F.kl_div(
            F.log_softmax(x, -1), torch.softmax(target, -1), reduction="batchmean"
        ),
        fields=TARGET,
    ),
    "kl_div_log_target": loss(
        lambda x, target: F.kl_div(
            F.log_softmax(x, -1), F.log_softmax(target, -1), reduction="mean", log_target=True
        ),
        fields=TARGET,
    ),
}

EMBEDDING = {
    "cosine_similarity": loss(
        lambda x, other: mean_of(F.cosine_similarity(x, other)), fields={"other": normal(8)}
    ),
    "cosine_embedding_loss": loss(
        lambda x, other, sign: F.cosine_embedding_loss(x, other, sign.float() * 2 - 1), fields=PAIR
    ),
    "hinge_embedding_loss": loss(
        lambda x, sign: F.hinge_embedding_loss(x, sign.float() * 2 - 1),
        fields={"sign": index(8, high=2)},
    ),
    "margin_ranking_loss": loss(
        lambda x, other, sign: F.margin_ranking_loss(x[:, 0], other[:, 0], sign.float() * 2 - 1),
        fields=PAIR,
    ),
    "triplet_margin_loss": loss(
        lambda x, near, far: F.triplet_margin_loss(x, near, far),
        fields={"near": normal(8), "far": normal(8)},
    ),
    "multi_margin_loss": loss(
        lambda x, labels: F.multi_margin_loss(x, labels.long()), fields=LABEL
    ),
    "multilabel_soft_margin_loss": loss(
        lambda x, bit: F.multilabel_soft_margin_loss(x, bit.float()), fields={"bit": bits(8)}
    ),
    "soft_margin_loss": loss(
        lambda x, bit: F.soft_margin_loss(x, bit.float() * 2 - 1), fields={"bit": bits(8)}
    ),
    "ctc_loss": loss(
        lambda x, labels: F.ctc_loss(
            F.log_softmax(x.transpose(0, 1), -1),
            labels + 1,
            torch.full((4,), 5, device=x.device),
            torch.full((4,), 2, device=x.device),
        ),
        shape=(5, 8),
        fields={"labels": index(2, high=7)},
    ),
    "masked_mean": loss(
        lambda x, mask: (x.float() * mask.float()).sum() / mask.float().sum(),
        fields={"mask": Field(shape=(8,), kind="prefix_mask", dtype=torch.int32)},
    ),
}

LOSSES = CROSS_ENTROPY | REGRESSION | DISTRIBUTION | EMBEDDING
