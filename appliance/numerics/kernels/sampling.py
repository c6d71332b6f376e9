"""Kernels that draw tokens: fused top-k and top-p, multinomial samples, places among the true."""

from collections.abc import Sequence

import torch

from appliance.core.ir.attributes import flag, integer
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.elements import torch_dtype
from appliance.numerics.kernels.kernel import Builders, Kernel
from appliance.numerics.kernels.sources import placement_of
from appliance.numerics.philox import Placement, Stream, uniform


def _fused_top_k(node: Node, _types: Sequence[TensorType]) -> Kernel:
    axis, count = integer(node, "dimension"), integer(node, "k")

    def call(x: torch.Tensor) -> torch.Tensor:
        values, index = torch.sort(x.movedim(axis, -1), dim=-1, descending=True, stable=True)
        bits = values[..., :count].float().contiguous().view(torch.int32)
        fused = torch.stack((bits, index[..., :count].int()), dim=-1)
        return fused.flatten(-2).movedim(-1, axis)

    return Kernel(call=call)


def _draw(
    values: torch.Tensor,
    indices: torch.Tensor,
    p: torch.Tensor,
    u: torch.Tensor,
    k: torch.Tensor,
) -> torch.Tensor:
    """Return the index drawn from the smallest set of the first k that sums to p."""
    places = torch.arange(values.shape[-1], device=values.device)
    sums = torch.where(places < k, values.double(), 0.0).cumsum(-1)
    inside = (sums < p.double()).sum(-1, keepdim=True)
    last = torch.minimum(inside, k.long() - 1).clamp_(0, values.shape[-1] - 1)
    target = u.double() * sums.gather(-1, last)
    place = torch.minimum((sums <= target).sum(-1, keepdim=True), last)
    return indices.gather(-1, place).to(torch.int32)


def _fused_top_p(_node: Node, _types: Sequence[TensorType]) -> Kernel:
    def call(
        fused: torch.Tensor, p: torch.Tensor, u: torch.Tensor, k: torch.Tensor
    ) -> torch.Tensor:
        pairs = fused.contiguous().view(*fused.shape[:-1], -1, 2)
        values = pairs[..., 0].contiguous().view(torch.float32)
        return _draw(values, pairs[..., 1], p, u, k)

    return Kernel(call=call)


def _top_p(_node: Node, _types: Sequence[TensorType]) -> Kernel:
    return Kernel(call=_draw)


def _multinomial(node: Node, types: Sequence[TensorType]) -> Kernel:
    """Draw by running sums with replacement, else by a race whose winners are the samples.

    Source of the race: Efraimidis, Spirakis, Weighted random sampling with a reservoir, 2006,
    algorithm A: the n largest of u ** (1 / weight), here log(u) / weight.
    """
    replaces, count = flag(node, "replacement"), integer(node, "num_samples")
    seed, stream = integer(node, "seed"), integer(node, "stream")
    dtype, drawn = torch_dtype(node.types[0].dtype), placement_of(node)
    if not replaces:
        shape = types[0].shape
        is_row = len(shape) == 1
        size = shape[0] if is_row else drawn.global_size
        drawn = Placement(shape=shape, axis=drawn.axis, start=drawn.start, global_size=size)

    def call(weights: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        u = uniform(drawn, Stream(seed=seed, stream=stream, step=int(step))).to(weights.device)
        if replaces:
            sums = weights.double().cumsum(-1)
            return torch.searchsorted(sums, u.double() * sums[..., -1:], right=True).to(dtype)
        order = torch.log(u.double() + 2.0**-25) / weights.double()
        return torch.sort(order, dim=-1, descending=True, stable=True)[1][..., :count].to(dtype)

    return Kernel(call=call, reads_step=True)


def _conditional_arange(node: Node, _types: Sequence[TensorType]) -> Kernel:
    start, step = integer(node, "start"), integer(node, "step")
    dtype = torch_dtype(node.types[0].dtype)

    def call(mask: torch.Tensor) -> torch.Tensor:
        is_true = mask != 0
        places = is_true.cumsum(-1) - 1
        return torch.where(is_true, places * step + start, 0).to(dtype)

    return Kernel(call=call)


def _next_tokens(node: Node, _types: Sequence[TensorType]) -> Kernel:
    """Return the kernel of one pass; the loop around it is the worker's."""
    dim = integer(node, "loop_dim")

    def call(
        tokens: torch.Tensor, index: torch.Tensor, update: torch.Tensor, _stop: torch.Tensor
    ) -> torch.Tensor:
        behind = (index.long() + 1).reshape(*index.shape, *[1] * (tokens.dim() - index.dim()))
        places = torch.arange(tokens.shape[dim], device=tokens.device)
        places = places.reshape(-1, *[1] * (tokens.dim() - dim - 1))
        return torch.where(places == behind, update, tokens)

    return Kernel(call=call)


BUILDERS: Builders = {
    "ConditionalArange": _conditional_arange,
    "FusedTopK": _fused_top_k,
    "FusedTopP": _fused_top_p,
    "FusedTopPDeinterleaved": _top_p,
    "RandomMultinomial": _multinomial,
    "wsc.NextTokens": _next_tokens,
}
