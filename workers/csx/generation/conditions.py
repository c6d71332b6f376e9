"""Whether numbers push every key behind a row's position so far down that a softmax makes it 0."""

from collections.abc import Sequence

import torch

from appliance.streams.torch_views import Tensors
from workers.csx.generation.rows import Addend, Choice, Mask

DOWN = -1e4
"""What counts as down. The softmax of a score is e to the score less its row's largest, which in
float32 is 0 from -104 on; so a score behind the position would have to exceed the largest one
before it by 9,896 to matter. Half precision's own lowest number, the usual mask, is -65,504."""


def hold(masks: Sequence[Mask], values: Tensors) -> bool:
    """Return whether masks push down every key behind the position of its row.

    Args:
        masks: What is added to the scores of one softmax; or, last, what replaces them.
        values: By name, the tensors that the masks name.
    """
    total: torch.Tensor | float = 0.0
    for mask in masks:
        total = total + _highest(mask, values)
    if not isinstance(total, torch.Tensor):
        return False
    behind = torch.ones_like(total, dtype=torch.bool).triu(1)
    return bool((total[behind] <= DOWN).all())


def _highest(mask: Mask, values: Tensors) -> torch.Tensor:
    """Return the highest number for each row and key, over all other dims; inf for a score left."""
    match mask:
        case Addend():
            return _over_others(values[mask.value], mask.rows, mask.keys)
        case Choice():
            chosen, value = values[mask.condition].bool(), values[mask.value]
            if not mask.when:
                chosen = ~chosen
            highest = torch.where(chosen, value.float(), torch.inf)
            return _over_others(highest, mask.rows, mask.keys)


def _over_others(tensor: torch.Tensor, rows: int, keys: int) -> torch.Tensor:
    moved = tensor.detach().float() if tensor.dtype != torch.float32 else tensor
    moved = moved.movedim((rows, keys), (-2, -1))
    for dim in range(moved.dim() - 2):
        if moved.stride(dim) == 0:  # broadcast: all alike
            moved = moved.narrow(dim, 0, 1)
    return moved.reshape(-1, *moved.shape[-2:]).amax(0)
