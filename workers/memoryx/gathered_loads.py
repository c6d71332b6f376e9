"""Loads of weights that are held whole, made ready to be sent by their non-zeros.

A load takes the place of the whole product in the segment of computed loads, or of packed ones: its
values lie at the beginning, and the rest is never touched. Its pattern lies where that of any
sparse weight does, and is worked out again only when the program has changed the mask.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import Plan
from appliance.core.plans.sparse.as_executed import matrix_shapes
from appliance.core.plans.sparse.gathered import gathered_after
from appliance.core.sparsity.encodings import Encoded, Encoding, MatrixShape, encoded
from appliance.numerics.float_formats import round_to
from appliance.numerics.packed_values import pack
from appliance.numerics.sparse.matrices import Pattern, SparseMatrix, pattern_of_bits, values_at
from appliance.streams.torch_views import Tensors


class GatheredLoads:
    """The gathered loads of a session.

    Args:
        plan: The plan of the session.
        state: State tensors in the store, by value name.
        places: Where each load lies in the store, by value name, with room for the whole tensor.
        patterns: Where the pattern of each weight lies, by value name.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        state: Tensors,
        places: Tensors,
        patterns: Mapping[str, NDArray[np.generic]],
    ) -> None:
        shapes = matrix_shapes(plan)
        gathered = [sparse for sparse in plan.sparse if sparse.is_gathered]
        self.names = frozenset(name for sparse in gathered for name in sparse.loads)
        self._weights = {
            sparse.weight: _GatheredWeight(
                shape=shapes[sparse.weight],
                weight=state[sparse.weight],
                mask=state[sparse.mask],
                loads=tuple(
                    _Load(dtype=plan.packed.get(name, plan.types[name].dtype), place=places[name])
                    for name in sparse.loads
                ),
                pattern_bytes=patterns[sparse.weight].view(np.uint8),
            )
            for sparse in gathered
        }
        self._of_mask = {sparse.mask: self._weights[sparse.weight] for sparse in gathered}
        self._after = gathered_after(plan)
        self.num_mask_changes = 0

    @property
    def held(self) -> Mapping[str, Encoded]:
        """How the loads of each weight are written, by value name; empty before `gather_all`."""
        return {
            name: each.latest.how for name, each in self._weights.items() if each.latest is not None
        }

    def gather_all(self) -> None:
        """Gather every load; all state has its value now."""
        for each in self._weights.values():
            each.gather()

    def gather_after(self, update: int) -> None:
        """Gather the loads whose weight and mask have been written, now that an update has run."""
        for sparse in self._after.get(update, ()):
            self.num_mask_changes += self._weights[sparse.weight].gather()

    def num_nonzeros(self, mask: str) -> int | None:
        """Return what a mask let through when its weight was gathered last.

        Args:
            mask: Its value name; None is returned if no weight has been gathered by it.
        """
        weight = self._of_mask.get(mask)
        return None if weight is None or weight.latest is None else weight.latest.num_nonzeros

    def whole(self, weight: str, values: torch.Tensor) -> torch.Tensor:
        """Return a tensor with its zeros.

        Args:
            weight: Value name of the weight whose mask let its values through.
            values: Those, or all of them where these have been sent.
        """
        return self._weights[weight].whole(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """A load of a weight.

    Attributes:
        dtype: The type to which values are rounded.
        place: Where it lies; int16 if it is packed, else float32.
    """

    dtype: DType
    place: torch.Tensor

    def write(self, values: torch.Tensor) -> None:
        """Write float32 values to the beginning."""
        place = self.place.view(-1)[: values.numel()]
        if place.dtype is torch.int16:
            pack(self.dtype, values, place)
        else:
            place.copy_(round_to(self.dtype, values))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mask:
    """A mask as it was when a weight was gathered.

    Attributes:
        num_nonzeros: Elements that it let through.
        how: How loads are written.
        bits: A bit for each of its elements.
        pattern: Where values are; None if all elements are sent.
    """

    num_nonzeros: int
    how: Encoded
    bits: NDArray[np.uint8]
    pattern: Pattern | None


@dataclass(slots=True, kw_only=True)
class _GatheredWeight:
    """One weight.

    Attributes:
        shape: Of the weight.
        weight: The weight in the store.
        mask: Its mask in the store.
        loads: What is made of it.
        pattern_bytes: Where its pattern is read.
        latest: The mask that it was gathered by; None before the first time.
    """

    shape: MatrixShape
    weight: torch.Tensor
    mask: torch.Tensor
    loads: tuple[_Load, ...]
    pattern_bytes: NDArray[np.uint8]
    latest: _Mask | None = None

    def gather(self) -> bool:
        """Write the loads, and the pattern if the mask has changed; return whether it has."""
        bits = np.packbits(self.mask.numpy().reshape(-1), bitorder="little")
        latest = self.latest
        has_changed = latest is None or not np.array_equal(bits, latest.bits)
        if latest is None or has_changed:
            latest = self.latest = self._take_mask(bits)
        values = self._values(latest)
        for load in self.loads:
            load.write(values)
        return has_changed

    def _values(self, latest: _Mask) -> torch.Tensor:
        if latest.pattern is None:
            return torch.mul(self.weight, self.mask).view(-1)
        values = torch.empty(latest.num_nonzeros)
        values_at(self.weight, latest.pattern, values)
        return values

    def _take_mask(self, bits: NDArray[np.uint8]) -> _Mask:
        shape = self.shape
        num_nonzeros = int(torch.count_nonzero(self.mask))
        how = encoded(shape, num_nonzeros)
        if how.encoding is Encoding.DENSE:
            return _Mask(num_nonzeros=num_nonzeros, how=how, bits=bits, pattern=None)
        pattern = pattern_of_bits(
            torch.from_numpy(bits),
            num_rows=shape.rows,
            num_columns=shape.columns,
            num_values=num_nonzeros,
        )
        written = bits
        if how.encoding is Encoding.ROWS:
            parts = pattern.offsets.numpy(), pattern.columns.numpy()
            written = np.concatenate([part.view(np.uint8) for part in parts])
        self.pattern_bytes[: written.size] = written
        return _Mask(num_nonzeros=num_nonzeros, how=how, bits=bits, pattern=pattern)

    def whole(self, values: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the weight's shape with these values; see `GatheredLoads.whole`."""
        assert self.latest is not None
        if self.latest.pattern is None or values.shape == self.weight.shape:
            return values
        found = SparseMatrix(pattern=self.latest.pattern, values=values).dense()
        return found.view(self.weight.shape)
