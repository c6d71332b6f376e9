"""What a CS-2 keeps of the values that layer steps load: nothing, or in pipelined execution all."""

import torch

from appliance.core.plan import Execution, Plan
from appliance.numerics.elements import torch_dtype
from appliance.streams.torch_views import Tensors


class Residents:
    """The loads of a plan's layer steps, as far as they stay.

    Args:
        plan: A verified plan.
    """

    def __init__(self, plan: Plan) -> None:
        self._loads: tuple[Tensors, ...] = ()
        self.num_bytes = 0
        if plan.execution is Execution.WEIGHT_STREAMING:
            return
        names = dict.fromkeys(name for step in plan.layer_steps for name in step.loads)
        types = {name: plan.types[name] for name in names}
        tensors = {
            name: torch.empty(type_.shape, dtype=torch_dtype(type_.dtype))
            for name, type_ in types.items()
        }
        self._loads = tuple({name: tensors[name] for name in s.loads} for s in plan.layer_steps)
        self.num_bytes = sum(type_.num_bytes for type_ in types.values())

    def loads(self, layer_step: int, arrived: Tensors) -> Tensors:
        """Return all that a layer step loads, once what has arrived for it is taken in.

        Args:
            layer_step: Its index; they come in the order of visits.
            arrived: Views of a broadcast slot, by name.
        """
        if not self._loads:
            return arrived
        loads = self._loads[layer_step]
        for name, tensor in arrived.items():
            loads[name].copy_(tensor)
        return loads
