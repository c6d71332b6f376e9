"""Which loaded values a CS-2 retains: none, or in pipelined execution all."""

import torch

from appliance.core.ir.tensors import TensorType
from appliance.core.plans.plan import Execution, Plan
from appliance.numerics.elements import torch_dtype
from appliance.streams.stream_topology import load_type
from appliance.streams.torch_views import Tensors


class Residents:
    """The loads of a plan's layer steps, as far as they stay.

    Args:
        plan: A verified plan.
    """

    def __init__(self, plan: Plan) -> None:
        self._types: dict[str, TensorType] = {}
        self._names: tuple[tuple[str, ...], ...] = ()
        self._loads: tuple[Tensors, ...] = ()
        if plan.execution is Execution.PIPELINED:
            self._names = tuple(step.loads for step in plan.layer_steps)
            names = dict.fromkeys(name for names in self._names for name in names)
            self._types = {name: load_type(plan, name) for name in names}

    @property
    def num_bytes(self) -> int:
        """Bytes that stay; 0 in weight streaming."""
        return sum(type_.num_bytes for type_ in self._types.values())

    def loads(self, layer_step: int, arrived: Tensors) -> Tensors:
        """Return all that a layer step loads, once what has arrived for it is taken in.

        Args:
            layer_step: Its index; they come in the order of visits.
            arrived: Views of a broadcast slot, by name.
        """
        if not self._types:
            return arrived
        if not self._loads:
            self._loads = self._make()
        loads = self._loads[layer_step]
        for name, tensor in arrived.items():
            loads[name].copy_(tensor)
        return loads

    def _make(self) -> tuple[Tensors, ...]:
        """Return memory for everything; a system that maps MemoryX's store never needs it."""
        tensors = {
            name: torch.empty(type_.shape, dtype=torch_dtype(type_.dtype))
            for name, type_ in self._types.items()
        }
        return tuple({name: tensors[name] for name in names} for names in self._names)
