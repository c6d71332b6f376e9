"""Sparse loads as programs take them, and sums of which only non-zeros are sent.

A load whose readers multiply non-zeros stays as it came, with its pattern in rows. Any other is
made whole when its layer step begins and is gone when that ends, like any other; so what a system
holds of weights does not grow with depth. A pattern comes with every load and is not kept for the
next one, for the same reason.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from appliance.core.ir.tensors import TensorType
from appliance.core.plans.loads.packed import streamed_type
from appliance.core.plans.plan import Plan
from appliance.core.plans.sparse.as_executed import matrix_shapes
from appliance.core.sparsity.encodings import Encoded, Encoding, MatrixShape
from appliance.numerics.elements import torch_dtype
from appliance.numerics.masks.places import Places, gather, places_of, scatter
from appliance.numerics.programs.pool import TensorPool
from appliance.numerics.sparse.matrices import (
    Pattern,
    full_pattern,
    index_type,
    pattern_of_bits,
)
from appliance.numerics.sparse.weight_products import parts_of
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.sparse_slots import COUNTS, pattern_of
from appliance.streams.stream_topology import load_slots, sum_layout, sum_slots
from appliance.streams.torch_views import SlotTensors, Tensors, tensors_of
from workers.csx.sparse_forms import SparseForms

Slot = NDArray[np.uint8]


class SparseValues:
    """The sparse loads and sums of a system.

    Args:
        plan: A verified plan.
        rows: The names of values of each row of the broadcast stream.
        sums: Tensors of all sums of a layer step, by layer step.
        forms: Which loads programs take, and which sums they give, as non-zeros.
    """

    def __init__(
        self, plan: Plan, rows: Sequence[Sequence[str]], sums: SlotTensors, forms: SparseForms
    ) -> None:
        self._forms = forms
        self._loads, self._sums = load_slots(plan, rows), sum_slots(plan)
        self._whole_sums = sums
        shapes = matrix_shapes(plan)
        names = {n: each.weight for each in plan.sparse for n in (*each.loads, *each.totals)}
        self._weight_of = names
        self._scheduled = {name for each in plan.sparse for name in each.scheduled_totals}
        self._shapes = {name: shapes[weight] for name, weight in names.items()}
        self._types: Mapping[str, TensorType] = {name: streamed_type(plan, name) for name in names}
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
        self._free_rooms: list[Slot] = []
        self._begun: deque[_Visit] = deque()

    def is_sparse(self, row: int) -> bool:
        """Whether a row of the broadcast stream holds sparse values."""
        return bool(self._loads.names(row))

    def load_bytes(self, row: int, slot: Slot) -> int:
        """Return what the loads of a row take: as they come, and what is made of them."""
        names = self._loads.names(row)
        arrived = self._layout(row, slot).num_bytes
        whole = (name for name in names if name not in self._forms.loads)
        return arrived + sum(self._types[name].num_bytes for name in whole)

    def sent(self, row: int, slot: Slot) -> Tensors:
        """Return the values that a slot holds, sparse ones as they come."""
        return tensors_of(self._layout(row, slot), slot)

    def begin(
        self, row: int, layer_step: int, slot: Slot, arrived: Tensors, sums: Slot
    ) -> tuple[Tensors, Slot, Mapping[str, int]]:
        """Begin a visit.

        Args:
            row: The row that the slot holds.
            slot: A slot of the broadcast stream.
            arrived: Its values and patterns, or views of them where they lie.
            sums: The slot of the gradient stream.

        Returns:
            The loads, as programs take them; where the sums are to be written; and of which sums
            not the whole is, but so many values at the beginning of their places.
        """
        loads = {name: tensor for name, tensor in arrived.items() if name not in self._shapes}
        loads.pop(COUNTS, None)
        found: dict[str, _Arrived] = {}
        names, counts = self._loads.names(row), self._loads.counts(row, slot)
        for name, count in zip(names, counts[: len(names)], strict=True):
            take = self._parts if name in self._forms.loads else self._whole
            found[self._weight_of[name]], tensors = take(name, count, arrived)
            loads.update(tensors)
        asked = {self._weight_of[n]: num for n, num in self._loads.asked(row, counts).items()}
        room = self._take_room() if self._sums.names(layer_step) else None
        self._begun.append(_Visit(loads=found, asked=asked, room=room))
        given = self._forms.gradients.get(layer_step, {})
        sizes = {total: found[self._weight_of[total]].count for total in given}
        return loads, sums if room is None else room, sizes

    def _take_room(self) -> Slot:
        """Return memory for the whole sums of a visit.

        Views of it are made once, as those of a ring's slots are (`SlotTensors`), so it is the same
        few arrays again and again: as many as visits have been begun at a time.
        """
        if self._free_rooms:
            return self._free_rooms.pop()
        return self._pool.empty((self._room_bytes,), torch.uint8).numpy()

    def finish(self, layer_step: int, slot: Slot) -> int | None:
        """Finish the visit that was begun first.

        Args:
            layer_step: Its layer step, which has been computed.
            slot: Its slot of the gradient stream.

        Returns:
            How many bytes of the slot were written here; None if the sums lie there already.
        """
        visit = self._begun.popleft()
        if visit.room is None:
            return None
        whole = self._whole_sums.of(visit.room, layer_step)
        names = self._sums.names(layer_step)
        counts = tuple(self._num_sent(name, visit) for name in names)
        layout = self._sums.layout(layer_step, counts)
        sent = tensors_of(layout, slot)
        sent.pop(COUNTS).numpy()[...] = counts
        given = self._forms.gradients.get(layer_step, {})
        for name, count in zip(names, counts, strict=True):
            load = visit.loads[self._weight_of[name]]
            if name in given:
                sent.pop(name).view(-1).copy_(whole.pop(name).view(-1)[:count])
            elif count == load.count and (wanted := load.places()) is not None:
                gather(whole.pop(name), wanted, sent.pop(name))
        for name, tensor in whole.items():
            sent[name].view(tensor.shape).copy_(tensor)
        self._free_rooms.append(visit.room)
        return layout.num_bytes

    def _num_sent(self, total: str, visit: "_Visit") -> int:
        weight = self._weight_of[total]
        return visit.asked[weight] if total in self._scheduled else visit.loads[weight].count

    def _layout(self, row: int, slot: Slot) -> SlotLayout:
        return self._loads.layout(row, self._loads.counts(row, slot))

    def _parts(self, name: str, count: int, arrived: Tensors) -> tuple["_Arrived", Tensors]:
        """Return a load as programs take its non-zeros."""
        how, shape = self._loads.encoded(name, count), self._shapes[name]
        values = arrived[name].reshape(-1)[: how.num_values]
        if how.encoding is Encoding.DENSE:
            pattern = full_pattern(shape.rows, shape.columns)
        else:
            packed = arrived[pattern_of(name)][: how.pattern_bytes]
            pattern = _pattern(packed, shape, how)
        parts = dict(zip(parts_of(name), (values, pattern.offsets, pattern.columns), strict=True))
        return _Arrived(count=how.num_values, places=pattern.places), parts

    def _whole(self, name: str, count: int, arrived: Tensors) -> tuple["_Arrived", Tensors]:
        """Return a load with its zeros."""
        how, type_ = self._loads.encoded(name, count), self._types[name]
        values = arrived[name].reshape(-1)[: how.num_values]
        if how.encoding is Encoding.DENSE:
            whole = {name: values.view(type_.shape)}
            return _Arrived(count=how.num_values, places=lambda: None), whole
        packed = arrived[pattern_of(name)].numpy()[: how.pattern_bytes]
        places = places_of(packed, self._shapes[name], how.encoding)
        whole = {name: self._pool.empty(type_.shape, torch_dtype(type_.dtype))}
        scatter(values, places, whole[name])
        return _Arrived(count=how.num_values, places=lambda: places), whole


def _pattern(packed: torch.Tensor, shape: MatrixShape, how: Encoded) -> Pattern:
    """Return the pattern that bytes of MemoryX's say; of rows without a copy.

    They may have crossed a network in plain text: nothing in them leads out of a matrix.

    Raises:
        ValueError: They say no pattern of the shape.
    """
    if how.encoding is Encoding.BITMAP:
        return pattern_of_bits(
            packed, num_rows=shape.rows, num_columns=shape.columns, num_values=how.num_values
        )
    end = 8 * (shape.rows + 1)
    pattern = Pattern(
        num_rows=shape.rows,
        num_columns=shape.columns,
        offsets=packed[:end].view(torch.int64),
        columns=packed[end:].view(index_type(shape.columns)),
    )
    pattern.verify()
    return pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrived:
    """A sparse load that has arrived.

    Attributes:
        count: Its values.
        places: Returns where they lie; None if it came whole.
    """

    count: int
    places: Callable[[], Places | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Visit:
    """A visit that has begun.

    Attributes:
        loads: Its sparse loads, by the value name of the weight.
        asked: How many values of scheduled gradients the step needs, likewise.
        room: Where its sums are written whole; None if it sends all of them as they are.
    """

    loads: Mapping[str, _Arrived]
    asked: Mapping[str, int]
    room: Slot | None
