"""Samples of PyTorch's layers: convolution, pooling, normalisation, attention, recurrence."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from catalog.probes import op

LINE, PLANE, SPACE = (3, 8), (3, 6, 6), (2, 4, 4, 4)


def layer(make, shape, **options):
    """Return a sample of a module on values of the given shape."""
    return op(lambda module, x: module(x), make=make, shape=shape, **options)


CONVOLUTIONS = {
    "conv1d": layer(lambda: nn.Conv1d(3, 4, 3), LINE),
    "conv1d_stride_dilation": layer(lambda: nn.Conv1d(3, 4, 3, 2, padding=2, dilation=2), LINE),
    "conv1d_no_bias": layer(lambda: nn.Conv1d(3, 4, 1, bias=False), LINE),
    "conv2d": layer(lambda: nn.Conv2d(3, 4, 3), PLANE),
    "conv2d_padding_stride": layer(lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), PLANE),
    "conv2d_uneven": layer(lambda: nn.Conv2d(3, 4, (3, 2), (2, 1), padding=(1, 0)), PLANE),
    "conv2d_same": layer(lambda: nn.Conv2d(3, 4, 3, padding="same"), PLANE),
    "conv2d_dilation": layer(lambda: nn.Conv2d(3, 4, 3, dilation=2), PLANE),
    "conv2d_groups": layer(lambda: nn.Conv2d(4, 8, 3, groups=2), (4, 4, 4)),
    "conv2d_depthwise": layer(lambda: nn.Conv2d(4, 4, 3, groups=4), (4, 4, 4)),
    "conv2d_circular": layer(lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), PLANE),
    "conv3d": layer(lambda: nn.Conv3d(2, 3, 3, padding=1), SPACE),
    "conv3d_stride": layer(lambda: nn.Conv3d(2, 3, 2, stride=2), SPACE),
    "conv_transpose1d": layer(lambda: nn.ConvTranspose1d(3, 4, 3), LINE),
    "conv_transpose2d": layer(lambda: nn.ConvTranspose2d(3, 4, 3), PLANE),
    "conv_transpose2d_stride": layer(
        lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), PLANE
    ),
    "conv_transpose3d": layer(lambda: nn.ConvTranspose3d(2, 3, 2, stride=2), SPACE),
}

POOLING = {
    "max_pool1d": layer(lambda: nn.MaxPool1d(2), LINE),
    "max_pool2d": layer(lambda: nn.MaxPool2d(2), PLANE),
    "max_pool2d_overlapping": layer(lambda: nn.MaxPool2d(3, stride=2, padding=1), PLANE),
    "max_pool2d_dilation": layer(
        lambda: nn.MaxPool2d(2, stride=1, dilation=2), PLANE, lost="dilation"
    ),
    "max_pool2d_ceil": layer(lambda: nn.MaxPool2d(4, stride=3, ceil_mode=True), PLANE),
    "max_pool3d": layer(lambda: nn.MaxPool3d(2), SPACE),
    "avg_pool1d": layer(lambda: nn.AvgPool1d(2), LINE),
    "avg_pool2d": layer(lambda: nn.AvgPool2d(2), PLANE),
    "avg_pool2d_padding": layer(lambda: nn.AvgPool2d(3, stride=2, padding=1), PLANE),
    "avg_pool2d_exclude_padding": layer(
        lambda: nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
        PLANE,
        lost="count_include_pad=False",
    ),
    "avg_pool2d_overlapping": layer(lambda: nn.AvgPool2d(4, stride=2), PLANE),
    "avg_pool3d": layer(lambda: nn.AvgPool3d(2), SPACE),
    "adaptive_avg_pool1d": layer(lambda: nn.AdaptiveAvgPool1d(2), LINE),
    "adaptive_avg_pool2d_to_1": layer(lambda: nn.AdaptiveAvgPool2d(1), PLANE),
    "adaptive_avg_pool2d": layer(lambda: nn.AdaptiveAvgPool2d(3), PLANE),
    "adaptive_avg_pool3d": layer(lambda: nn.AdaptiveAvgPool3d(1), SPACE),
    "adaptive_max_pool2d": layer(lambda: nn.AdaptiveMaxPool2d(2), PLANE),
    "interpolate_nearest": op(lambda x: F.interpolate(x, scale_factor=2), shape=PLANE),
    "interpolate_bilinear": op(
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
        shape=PLANE,
    ),
}


def spread(make):
    """Return a maker of the module with affine parameters away from 1 and 0."""

    def build():
        module = make()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.25)
        return module

    return build


class Frozen(nn.Module):
    """Batch norms in evaluation whatever is trained around them, with statistics of their own."""

    def __init__(self, make, times: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(spread(make)() for _ in range(times))
        with torch.no_grad():
            for norm in self.norms:
                norm.running_mean.copy_(torch.randn_like(norm.running_mean) * 0.25)
                norm.running_var.copy_(torch.rand_like(norm.running_var) + 0.5)

    def train(self, mode: bool = True) -> Frozen:
        """Leave the norms in evaluation."""
        super().train(mode)
        self.norms.eval()
        return self

    def forward(self, x):
        for norm in self.norms:
            x = norm(x)
        return x


def frozen(make, times: int = 1):
    """Return a maker of batch norms, one after another, that are trained through in evaluation."""
    return lambda: Frozen(make, times)


NORMALISATION = {
    "batch_norm1d": layer(spread(lambda: nn.BatchNorm1d(3)), LINE),
    "batch_norm1d_vectors": layer(spread(lambda: nn.BatchNorm1d(8)), (8,)),
    "batch_norm2d": layer(spread(lambda: nn.BatchNorm2d(3)), PLANE),
    "batch_norm3d": layer(spread(lambda: nn.BatchNorm3d(2)), SPACE),
    "batch_norm2d_no_affine": layer(lambda: nn.BatchNorm2d(3, affine=False), PLANE),
    "batch_norm2d_no_running": layer(
        spread(lambda: nn.BatchNorm2d(3, track_running_stats=False)), PLANE
    ),
    "batch_norm2d_eval": layer(spread(lambda: nn.BatchNorm2d(3)), PLANE, training=False),
    "batch_norm1d_frozen": layer(frozen(lambda: nn.BatchNorm1d(3)), LINE),
    "batch_norm1d_frozen_vectors": layer(frozen(lambda: nn.BatchNorm1d(8)), (8,)),
    "batch_norm2d_frozen": layer(frozen(lambda: nn.BatchNorm2d(3, eps=2**-6)), PLANE),
    "batch_norm2d_frozen_twice": layer(frozen(lambda: nn.BatchNorm2d(3), times=2), PLANE),
    "batch_norm2d_frozen_no_affine": layer(frozen(lambda: nn.BatchNorm2d(3, affine=False)), PLANE),
    "batch_norm2d_frozen_altogether": layer(
        frozen(lambda: nn.BatchNorm2d(3).requires_grad_(False)), PLANE
    ),
    "batch_norm3d_frozen": layer(frozen(lambda: nn.BatchNorm3d(2)), SPACE),
    "group_norm": layer(spread(lambda: nn.GroupNorm(2, 4)), (4, 3, 3)),
    "group_norm_1d": layer(spread(lambda: nn.GroupNorm(2, 4)), (4, 5)),
    "group_norm_no_affine": layer(lambda: nn.GroupNorm(2, 4, affine=False), (4, 3, 3)),
    "instance_norm1d": layer(lambda: nn.InstanceNorm1d(3), LINE),
    "instance_norm2d": layer(lambda: nn.InstanceNorm2d(3), PLANE),
    "instance_norm2d_running": layer(
        spread(lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True)), PLANE
    ),
    "instance_norm2d_affine": layer(spread(lambda: nn.InstanceNorm2d(3, affine=True)), PLANE),
    "layer_norm": layer(spread(lambda: nn.LayerNorm(8)), (3, 8)),
    "layer_norm_no_affine": layer(lambda: nn.LayerNorm(8, elementwise_affine=False), (3, 8)),
    "layer_norm_no_bias": layer(spread(lambda: nn.LayerNorm(8, bias=False)), (3, 8)),
    "layer_norm_two_axes": layer(spread(lambda: nn.LayerNorm((3, 8))), (2, 3, 8)),
    "local_response_norm": layer(lambda: nn.LocalResponseNorm(2), PLANE),
    "weight_norm": layer(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), (8,)),
    "spectral_norm": layer(lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)), (8,)),
}


def manual_attention(x):
    """Softmax attention written out."""
    scores = torch.matmul(x, x.transpose(-1, -2)) / math.sqrt(x.shape[-1])
    return torch.matmul(F.softmax(scores, dim=-1), x)


ATTENTION = {
    "attention_f16_softmax": op(manual_attention, shape=(2, 3, 4)),
    "scaled_dot_product_attention": op(
        lambda x: F.scaled_dot_product_attention(x, x, x), shape=(2, 3, 16)
    ),
    "scaled_dot_product_causal": op(
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), shape=(2, 3, 16)
    ),
    "multihead_attention": op(
        lambda m, x: m(x, x, x)[0],
        make=lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        shape=(3, 8),
    ),
    "transformer_encoder_layer": layer(
        lambda: nn.TransformerEncoderLayer(16, 1, 16, dropout=0.0, batch_first=True), (3, 16)
    ),
    "transformer_decoder_layer": op(
        lambda m, x: m(x, x),
        make=lambda: nn.TransformerDecoderLayer(16, 1, 16, dropout=0.0, batch_first=True),
        shape=(3, 16),
    ),
    "bilinear": op(lambda m, x: m(x.float(), x.float()), make=lambda: nn.Bilinear(8, 8, 4)),
    "linear_3d": layer(lambda: nn.Linear(8, 5), (3, 8)),
    "linear_no_bias": layer(lambda: nn.Linear(8, 5, bias=False), (8,)),
    "lstm": op(lambda m, x: m(x)[0], make=lambda: nn.LSTM(8, 4, batch_first=True), shape=(3, 8)),
    "gru": op(lambda m, x: m(x)[0], make=lambda: nn.GRU(8, 4, batch_first=True), shape=(3, 8)),
    "lstm_f32": op(
        lambda m, x: m(x.float())[0], make=lambda: nn.LSTM(8, 4, batch_first=True), shape=(3, 8)
    ),
    "gru_f32": op(
        lambda m, x: m(x.float())[0], make=lambda: nn.GRU(8, 4, batch_first=True), shape=(3, 8)
    ),
    "rnn_cell": op(lambda m, x: m(x), make=lambda: nn.RNNCell(8, 4)),
    "lstm_cell": op(lambda m, x: m(x)[0], make=lambda: nn.LSTMCell(8, 4)),
}

RANDOM = {
    "dropout_f32": op(lambda x: F.dropout(x.float(), 0.25), without_numbers=True),
    "dropout2d": layer(lambda: nn.Dropout2d(0.25), PLANE, without_numbers=True),
    "alpha_dropout": layer(lambda: nn.AlphaDropout(0.25), (8,), without_numbers=True),
    "rand_like": op(lambda x: x * torch.rand_like(x), without_numbers=True),
    "rand_twice": op(
        lambda x: x * torch.rand(4, 8, device=x.device) + torch.rand(4, 8, device=x.device),
        without_numbers=True,
    ),
    "randn_like": op(lambda x: x + torch.randn_like(x), without_numbers=True),
    "bernoulli": op(lambda x: x * torch.bernoulli(torch.sigmoid(x).detach()), without_numbers=True),
    "multinomial": op(
        lambda x: x[:, :1] * torch.multinomial(torch.softmax(x.float(), -1), 1),
        without_numbers=True,
    ),
    "randint": op(lambda x: x * torch.randint(0, 4, (4, 8), device=x.device), without_numbers=True),
}
