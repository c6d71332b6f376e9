"""Where each tensor lies in a slot of a stream: fixed when the plan is loaded, never sent."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.core.ir.tensors import TensorType

ALIGNMENT_BYTES = 64
"""One cache line, and the widest vector load of the machines we run on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutItem:
    """One tensor of a slot.

    Attributes:
        name: Name of the value.
        type: Its type; the slot holds the row-major container.
        offset: Byte offset in the slot, a multiple of `ALIGNMENT_BYTES`.
    """

    name: str
    type: TensorType
    offset: int

    def view(self, buffer: NDArray[np.uint8]) -> NDArray[np.generic]:
        """Return the tensor as a view of a slot's bytes."""
        raw = buffer[self.offset : self.offset + self.type.num_bytes]
        return raw.view(self.type.dtype.container).reshape(self.type.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A run of tensors of one element type, padding included: one addition serves them all.

    Nobody reads the padding, and adding it up costs less than another call.

    Attributes:
        dtype: Container element type.
        start: First byte in the slot.
        end: Byte after the last one.
    """

    dtype: np.dtype[np.generic]
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLayout:
    """The tensors of a slot, in order.

    Attributes:
        items: The tensors.
        num_bytes: Bytes of the whole slot, a multiple of `ALIGNMENT_BYTES`; 0 for an empty slot.
    """

    items: tuple[LayoutItem, ...]
    num_bytes: int

    @classmethod
    def of(cls, tensors: Iterable[tuple[str, TensorType]]) -> "SlotLayout":
        """Return the layout that packs the tensors in the given order."""
        items: list[LayoutItem] = []
        offset = 0
        for name, type_ in tensors:
            items.append(LayoutItem(name=name, type=type_, offset=offset))
            offset += -(-type_.num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return cls(items=tuple(items), num_bytes=offset)

    def of_only(self, names: Collection[str]) -> "SlotLayout":
        """Return the layout of the named tensors, each where it lies."""
        items = tuple(item for item in self.items if item.name in names)
        return SlotLayout(items=items, num_bytes=self.num_bytes)

    def spans(self) -> tuple[Span, ...]:
        """Return all tensors in as few spans as there can be."""
        found: list[Span] = []
        for item in self.items:
            dtype, start = item.type.dtype.container, item.offset
            if found and found[-1].dtype == dtype:
                start = found.pop().start
            found.append(Span(dtype=dtype, start=start, end=item.offset + item.type.num_bytes))
        return tuple(found)

    def views(self, buffer: NDArray[np.uint8]) -> dict[str, NDArray[np.generic]]:
        """Return every tensor, by name, as a view of a slot's bytes."""
        return {item.name: item.view(buffer) for item in self.items}
