"""Slots and segments seen as torch tensors, without copying."""

import warnings

import numpy as np
import torch
from numpy.typing import NDArray

from appliance.streams.slot_layout import SlotLayout

Tensors = dict[str, torch.Tensor]


def tensors_of(layout: SlotLayout, buffer: NDArray[np.uint8]) -> Tensors:
    """Return every tensor of a slot or segment, by name, as a view of its bytes.

    A tensor knows no read-only memory: writing to a view of a buffer that is mapped for reading
    ends the process.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return {name: torch.from_numpy(view) for name, view in layout.views(buffer).items()}


class SlotTensors:
    """The tensors of a ring's slots, made once for each slot and arrangement.

    A ring hands out the same few slots again and again, and making a view costs more than a
    doorbell. Layouts that differ in names only share their views.

    Args:
        layouts: What a slot may hold, by the layer step's index.
    """

    def __init__(self, layouts: tuple[SlotLayout, ...]) -> None:
        alike: dict[object, SlotLayout] = {}
        self._layouts = tuple(alike.setdefault(_places(layout), layout) for layout in layouts)
        self._names = tuple(tuple(item.name for item in layout.items) for layout in layouts)
        self._views: dict[tuple[int, int], tuple[torch.Tensor, ...]] = {}
        self._slots: dict[int, NDArray[np.uint8]] = {}

    def of(self, slot: NDArray[np.uint8], layer_step: int) -> Tensors:
        """Return the tensors that a slot holds for a layer step."""
        layout = self._layouts[layer_step]
        key = (id(slot), id(layout))
        views = self._views.get(key)
        if views is None:
            # Holding the slot keeps its identity from being given to another array.
            self._slots[id(slot)] = slot
            views = self._views[key] = tuple(tensors_of(layout, slot).values())
        return dict(zip(self._names[layer_step], views, strict=True))

    def clear(self) -> None:
        """Drop every view."""
        self._views.clear()
        self._slots.clear()


def _places(layout: SlotLayout) -> object:
    return tuple((item.type, item.offset) for item in layout.items)
