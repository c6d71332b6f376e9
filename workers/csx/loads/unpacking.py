"""Loads that come in two bytes a value, made what programs compute with.

Programs hold 16-bit values in float32, or bfloat16 ones in two bytes where the processor multiplies
those; then nothing is left to do. Unpacked values are there for one visit, as the slot is in which
they came.
"""

from collections.abc import Iterable

import torch

from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import Plan
from appliance.numerics.packed_values import unpack
from appliance.numerics.programs.pool import TensorPool
from appliance.streams.torch_views import Tensors

_CONTAINER_BYTES = 4


class Unpacking:
    """Unpacks the packed loads of a plan.

    Args:
        plan: A verified plan.
        is_narrow: Whether programs take bfloat16 in two bytes a value.
    """

    def __init__(self, plan: Plan, *, is_narrow: bool) -> None:
        self._viewed = frozenset(
            name for name, dtype in plan.packed.items() if is_narrow and dtype is DType.BF16
        )
        self._formats = {n: dtype for n, dtype in plan.packed.items() if n not in self._viewed}
        self._sizes = {name: plan.types[name].num_elements for name in self._formats}
        self._pool = TensorPool()

    def num_bytes(self, names: Iterable[str]) -> int:
        """Return what is made of loads takes beside them."""
        return sum(_CONTAINER_BYTES * self._sizes.get(name, 0) for name in names)

    def unpack(self, loads: Tensors) -> Tensors:
        """Return loads as programs take them.

        Args:
            loads: All that a layer step loads, by name; packed ones as int16.
        """
        return {name: self._unpacked(name, tensor) for name, tensor in loads.items()}

    def _unpacked(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if name in self._viewed:
            return tensor.view(torch.bfloat16)
        dtype = self._formats.get(name)
        if dtype is None:
            return tensor
        out = self._pool.empty(tuple(tensor.shape), torch.float32)
        unpack(dtype, tensor, out)
        return out
