"""Sparse loads made whole in a system's memory, and sums of which only non-zeros are sent.

A load is made whole when its layer step begins and is gone when that ends, like any other; so what
a system holds of weights does not grow with depth. A pattern comes with every load and is not kept
for the next one, for the same reason.
"""

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from appliance.core.ir.tensors import TensorType
from appliance.core.plans.plan import Plan
from appliance.core.plans.sparse.execution import matrix_shapes
from appliance.core.sparsity.encodings import Encoding
from appliance.numerics.elements import torch_dtype
from appliance.numerics.masks.places import Places, gather, places_of, scatter
from appliance.numerics.programs.pool import TensorPool
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.sparse_slots import COUNTS, pattern_of
from appliance.streams.stream_topology import load_slots, sum_layout, sum_slots
from appliance.streams.torch_views import SlotTensors, Tensors, tensors_of

Slot = NDArray[np.uint8]


class SparseValues:
    """The sparse loads and sums of a system.

    Args:
        plan: A verified plan.
        rows: The names of values of each row of the broadcast stream.
        sums: Tensors of all sums of a layer step, by layer step.
    """

    def __init__(self, plan: Plan, rows: Sequence[Sequence[str]], sums: SlotTensors) -> None:
        self._loads, self._sums = load_slots(plan, rows), sum_slots(plan)
        self._whole_sums = sums
        shapes = matrix_shapes(plan)
        names = {n: each.weight for each in plan.sparse for n in (*each.loads, *each.totals)}
        self._weight_of = names
        self._shapes = {name: shapes[weight] for name, weight in names.items()}
        self._types: Mapping[str, TensorType] = {name: plan.types[name] for name in names}
        self._room_bytes = max(
            (
                sum_layout(plan, step).num_bytes
                for index, step in enumerate(plan.layer_steps)
                if self._sums.names(index)
            ),
            default=0,
        )
        numbers = range(len(plan.layer_steps))
        self.largest_sum_bytes = max(map(self._sums.most_bytes, numbers), default=0)
        self._pool = TensorPool()
        self._begun: deque[tuple[Mapping[str, Places | None], torch.Tensor | None]] = deque()

    def is_sparse(self, row: int) -> bool:
        """Whether a row of the broadcast stream holds sparse values."""
        return bool(self._loads.names(row))

    def load_bytes(self, row: int, slot: Slot) -> int:
        """Return what the loads of a row take: as they come, and what is made of them."""
        names = self._loads.names(row)
        arrived = self._layout(row, slot).num_bytes
        return arrived + sum(self._types[name].num_bytes for name in names)

    def sent(self, row: int, slot: Slot) -> Tensors:
        """Return the values that a slot holds, sparse ones as they come."""
        return tensors_of(self._layout(row, slot), slot)

    def begin(
        self, row: int, layer_step: int, slot: Slot, arrived: Tensors, sums: Slot
    ) -> tuple[Tensors, Slot]:
        """Begin a visit.

        Args:
            row: The row that the slot holds.
            layer_step: The layer step.
            slot: A slot of the broadcast stream.
            arrived: Its values and patterns, or views of them where they lie.
            sums: The slot of the gradient stream.

        Returns:
            The loads, all of them whole, and where the sums are to be written.
        """
        loads = {name: tensor for name, tensor in arrived.items() if name not in self._shapes}
        loads.pop(COUNTS, None)
        patterns: dict[str, Places | None] = {}
        counts = self._loads.counts(row, slot)
        for name, count in zip(self._loads.names(row), counts, strict=True):
            loads[name], patterns[self._weight_of[name]] = self._whole(name, count, arrived)
        room: torch.Tensor | None = None
        if self._sums.names(layer_step):
            room = self._pool.empty((self._room_bytes,), torch.uint8)
        self._begun.append((patterns, room))
        return loads, sums if room is None else room.numpy()

    def finish(self, layer_step: int, slot: Slot) -> int | None:
        """Finish the visit that was begun first.

        Args:
            layer_step: Its layer step, which has been computed.
            slot: Its slot of the gradient stream.

        Returns:
            How many bytes of the slot were written here; None if the sums lie there already.
        """
        patterns, room = self._begun.popleft()
        if room is None:
            return None
        whole = self._whole_sums.of(room.numpy(), layer_step)
        places = [patterns[self._weight_of[name]] for name in self._sums.names(layer_step)]
        counts = tuple(
            self._shapes[name].num_elements if found is None else len(found)
            for name, found in zip(self._sums.names(layer_step), places, strict=True)
        )
        layout = self._sums.layout(layer_step, counts)
        sent = tensors_of(layout, slot)
        sent.pop(COUNTS).numpy()[...] = counts
        for name, found in zip(self._sums.names(layer_step), places, strict=True):
            if found is not None:
                gather(whole.pop(name), found, sent.pop(name))
        for name, tensor in whole.items():
            sent[name].view(tensor.shape).copy_(tensor)
        return layout.num_bytes

    def _layout(self, row: int, slot: Slot) -> SlotLayout:
        return self._loads.layout(row, self._loads.counts(row, slot))

    def _whole(self, name: str, count: int, arrived: Tensors) -> tuple[torch.Tensor, Places | None]:
        """Return a load with its zeros, and where it has none; None if it came whole."""
        how, type_ = self._loads.encoded(name, count), self._types[name]
        values = arrived[name].reshape(-1)[: how.num_values]
        if how.encoding is Encoding.DENSE:
            return values.view(type_.shape), None
        packed = arrived[pattern_of(name)].numpy()[: how.pattern_bytes]
        places = places_of(packed, self._shapes[name], how.encoding)
        whole = self._pool.empty(type_.shape, torch_dtype(type_.dtype))
        scatter(values, places, whole)
        return whole, places
