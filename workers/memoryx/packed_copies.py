"""Copies of loads in the two bytes in which they are sent, made as soon as what they are of is new.

MemoryX computes with float32 values. Whenever an update has overwritten or computed one that is
sent packed, it is rounded and packed once, for all systems and both passes of the next step.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch

from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import Plan
from appliance.numerics.packed_values import pack
from appliance.streams.torch_views import Tensors

_Pair = tuple[DType, torch.Tensor, torch.Tensor]
"""Format, what is packed, where to."""


class PackedCopies:
    """The packed loads of a session.

    Args:
        plan: What this shard of MemoryX runs; of a sparse weight it may know the non-zeros alone.
        values: What is held, by value name, as that plan knows it.
        packed: Where each packed load lies, by value name, with room for the whole tensor.
    """

    def __init__(self, plan: Plan, *, values: Tensors, packed: Tensors) -> None:
        weight_of = {name: sparse.weight for sparse in plan.sparse for name in sparse.copies}
        self._by_source: defaultdict[str, list[_Pair]] = defaultdict(list)
        for name, room in packed.items():
            source = weight_of.get(name, name)
            value = values[source].view(-1)
            place = room.view(-1)[: value.numel()]
            self._by_source[source].append((plan.packed[name], value, place))
        self._of_updates = tuple(
            self._pairs(
                [
                    *(commit.state for commit in update.commits),
                    *(name for node in update.nodes for name in node.results),
                ]
            )
            for update in plan.updates
        )
        self._of_sums = tuple(
            self._pairs([sum_.total for sum_ in step.sums]) for step in plan.layer_steps
        )

    def make_all(self) -> None:
        """Pack everything, as the first step begins."""
        _pack(self._pairs(self._by_source))

    def after_sums(self, layer_step: int) -> None:
        """Pack the sums of a layer step that are loads themselves."""
        _pack(self._of_sums[layer_step])

    def after_update(self, index: int) -> None:
        """Pack what an update has overwritten or computed."""
        _pack(self._of_updates[index])

    def _pairs(self, names: Iterable[str]) -> tuple[_Pair, ...]:
        return tuple(pair for name in names for pair in self._by_source.get(name, ()))


def _pack(pairs: Iterable[_Pair]) -> None:
    for dtype, value, place in pairs:
        pack(dtype, value, place)
