"""State that a mask makes mostly zero, held by its non-zeros in the place of the whole tensor.

A tensor keeps its place in the segment; its values come to lie at the beginning, and the memory of
the rest goes back to the system. So no place depends on how many there are. The mask itself is
given back too: its pattern, in a segment of its own, says the same.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from appliance.core.plans.plan import Plan
from appliance.core.plans.sparse.as_executed import matrix_shapes
from appliance.core.plans.sparse_weight import SparseWeight
from appliance.core.sparsity.encodings import Encoded, Encoding, encoded
from appliance.core.sparsity.mask_patterns import Pattern, unpack
from appliance.streams.slot_layout import LayoutItem, SlotLayout
from appliance.streams.torch_views import Tensors


class SparseState:
    """The weights of a session that are held by their non-zeros, their optimizer state and masks.

    Args:
        plan: The plan of the session.
        layout: Where each state tensor lies.
        memory: The state's bytes.
        patterns: Where the pattern of each weight lies, by value name.
        give_back: Returns a range of the state's bytes to the system.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        layout: SlotLayout,
        memory: NDArray[np.uint8],
        patterns: Mapping[str, NDArray[np.generic]],
        give_back: Callable[[int, int], None],
    ) -> None:
        self._sparse = tuple(sparse for sparse in plan.sparse if sparse.members)
        self._shapes = matrix_shapes(plan)
        self._items = {item.name: item for item in layout.items}
        self._memory, self._patterns, self._give_back = memory, patterns, give_back
        self._owner: dict[str, SparseWeight] = {}
        self._held: dict[str, Encoded] = {}
        self.num_bytes_given_back = 0

    @property
    def held(self) -> Mapping[str, Encoded]:
        """How each sparse weight is held, by value name; empty before `hold`."""
        return self._held

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of values of each weight that is held by its non-zeros."""
        return {
            weight: how.num_values
            for weight, how in self._held.items()
            if how.encoding is not Encoding.DENSE
        }

    @property
    def to_hold(self) -> tuple[str, ...]:
        """The state tensors that `hold` will change, by value name."""
        waiting = (each for each in self._sparse if each.weight not in self._held)
        return tuple(name for each in waiting for name in (*each.members, each.mask))

    def num_bytes_of(self, name: str) -> int:
        """Return how many bytes of a state tensor's place hold it."""
        item, sparse = self._items[name], self._owner.get(name)
        if sparse is None:
            return item.type.num_bytes
        if name == sparse.mask:
            return 0
        return self._held[sparse.weight].num_values * self._shapes[sparse.weight].itemsize

    def hold(self) -> None:
        """Drop what masks do not let through; all state has its value now."""
        for sparse in self._sparse:
            if sparse.weight not in self._held:
                self._hold(sparse)

    def _hold(self, sparse: SparseWeight) -> None:
        mask = self._items[sparse.mask].view(self._memory).astype(np.bool_)
        shape = self._shapes[sparse.weight]
        how = self._held[sparse.weight] = encoded(shape, int(np.count_nonzero(mask)))
        for name in sparse.members:
            tensor = self._items[name].view(self._memory)
            if how.encoding is Encoding.DENSE:
                tensor[~mask] = 0
            else:
                tensor.reshape(-1)[: how.num_values] = tensor[mask]
                self._release(self._items[name], how.num_values * shape.itemsize)
        if how.encoding is not Encoding.DENSE:
            packed = Pattern.of_mask(mask, shape).pack(how.encoding)
            self._patterns[sparse.weight][: packed.size] = packed
            self._release(self._items[sparse.mask], 0)
            self._owner |= dict.fromkeys((*sparse.members, sparse.mask), sparse)

    def _release(self, item: LayoutItem, num_used: int) -> None:
        start, end = item.offset + num_used, item.offset + item.type.num_bytes
        self._give_back(start, end)
        self.num_bytes_given_back += end - start

    def whole(self, name: str) -> NDArray[np.generic] | None:
        """Return a state tensor with its zeros; None if it is held as it is.

        Args:
            name: Its value name.
        """
        sparse = self._owner.get(name)
        if sparse is None:
            return None
        item, pattern = self._items[name], self._pattern(sparse.weight)
        if name == sparse.mask:
            return pattern.mask().reshape(item.type.shape)
        found = np.zeros(item.type.num_elements, item.type.dtype.container)
        found[pattern.places()] = item.view(self._memory).reshape(-1)[: pattern.num_values]
        return found.reshape(item.type.shape)

    def gather(self, weight: str, dense: torch.Tensor) -> torch.Tensor:
        """Return what a weight's mask lets through of a tensor of its shape."""
        places = torch.from_numpy(self._pattern(weight).places())
        return dense.reshape(-1).index_select(0, places)

    def narrowed(self, tensors: Tensors, plan: Plan) -> Tensors:
        """Return tensors with those that a rewritten plan knows as vectors cut to their values.

        Args:
            tensors: By value name, of their whole shapes.
            plan: As `appliance.core.plans.sparse.nonzeros` rewrites it.
        """
        return dict(self._narrowed(tensors, plan))

    def _narrowed(self, tensors: Tensors, plan: Plan) -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in tensors.items():
            shape = plan.types[name].shape
            is_whole = tuple(tensor.shape) == shape
            yield name, tensor if is_whole else tensor.reshape(-1)[: shape[0]]

    def _pattern(self, weight: str) -> Pattern:
        how = self._held[weight]
        packed = self._patterns[weight][: how.pattern_bytes].view(np.uint8)
        return unpack(packed, self._shapes[weight], how.encoding, how.num_values)
