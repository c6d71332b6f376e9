"""Which loaded values a CS-2 retains: none, some within a step, or in pipelined execution all."""

import numpy as np
import torch
from numpy.typing import NDArray

from appliance.core.ir.tensors import TensorType
from appliance.core.plans.loads.packed import streamed_type
from appliance.core.plans.loads.residency import Deliveries
from appliance.core.plans.plan import Execution, Plan
from appliance.numerics.elements import torch_dtype
from appliance.streams.network.scatter import Scatter
from appliance.streams.torch_views import Tensors, tensors_of
from workers.csx.loads.kept_places import Places


class Residents:
    """The loads of a plan's layer steps, as far as they stay.

    Args:
        plan: A verified plan.
        sent: What the system is sent.
        places: What of it a bridge can receive where it stays.
    """

    def __init__(self, plan: Plan, sent: Deliveries, places: Places) -> None:
        self._places = places
        self._is_pipelined = plan.execution is Execution.PIPELINED
        names = dict.fromkeys(name for step in plan.layer_steps for name in step.loads)
        staying = [name for name in names if self._is_pipelined or name in sent.kept]
        self._types: dict[str, TensorType] = {name: streamed_type(plan, name) for name in staying}
        self._names = tuple(
            tuple(name for name in step.loads if name in self._types) for step in plan.layer_steps
        )
        self._tensors: Tensors = {}
        self._placed: Tensors = {}

    @property
    def scatter(self) -> Scatter | None:
        """How a bridge receives what stays where it stays; None if it cannot."""
        return self._places.scatter

    def receive_in(self, area: NDArray[np.uint8]) -> None:
        """Expect what a bridge can receive where it stays in the area of its ring."""
        self._placed = tensors_of(self._places.area, area)

    @property
    def num_bytes(self) -> int:
        """Bytes that stay from step to step; 0 in weight streaming."""
        return self._all_bytes if self._is_pipelined else 0

    @property
    def num_kept_bytes(self) -> int:
        """Bytes that are kept within a step; 0 in pipelined execution."""
        return 0 if self._is_pipelined else self._all_bytes

    @property
    def _all_bytes(self) -> int:
        return sum(type_.num_bytes for type_ in self._types.values())

    def loads(self, layer_step: int, arrived: Tensors) -> Tensors:
        """Return all that a layer step loads, once what has arrived for it is taken in.

        Args:
            layer_step: Its index; they come in the order of visits.
            arrived: Views of a broadcast slot, by name.
        """
        if not self._types:
            return arrived
        if not self._tensors:
            self._tensors = self._make() | self._placed
        loads = dict(arrived)
        for name in self._names[layer_step]:
            tensor = self._tensors[name]
            if name in arrived and name not in self._placed:
                tensor.copy_(arrived[name])
            loads[name] = tensor
        return loads

    def _make(self) -> Tensors:
        """Return memory for what is copied; a system that maps MemoryX's store never needs it."""
        return {
            name: torch.empty(type_.shape, dtype=torch_dtype(type_.dtype))
            for name, type_ in self._types.items()
            if name not in self._placed
        }
