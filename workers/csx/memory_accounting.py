"""A CS-2's memory by its own accounting: current and peak weights, peak activations."""

from collections import deque
from collections.abc import Iterable, Mapping

import torch


class MemoryAccount:
    """Counts weights as they come and go, and activations when asked to."""

    def __init__(self) -> None:
        self._held: deque[int] = deque()
        self._weight_bytes = 0
        self._peak_weight_bytes = 0
        self._peak_layer_steps = 0
        self._peak_activation_bytes = 0

    def take_weights(self, num_bytes: int) -> None:
        """Note that one more layer step's weights are held."""
        self._held.append(num_bytes)
        self._weight_bytes += num_bytes
        self._peak_weight_bytes = max(self._peak_weight_bytes, self._weight_bytes)
        self._peak_layer_steps = max(self._peak_layer_steps, len(self._held))

    def drop_weights(self) -> None:
        """Note that the oldest weights are given back."""
        self._weight_bytes -= self._held.popleft()

    def count_activations(self, tensors: Iterable[torch.Tensor]) -> None:
        """Note the bytes of tensors that are resident; views of one another count once."""
        storages = (tensor.untyped_storage() for tensor in tensors)
        sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
        self._peak_activation_bytes = max(self._peak_activation_bytes, sum(sizes.values()))

    def readings(self) -> Mapping[str, float]:
        """Return the account as metrics."""
        return {
            "wsc_csx_layer_steps_held": float(len(self._held)),
            "wsc_csx_layer_steps_held_peak": float(self._peak_layer_steps),
            "wsc_csx_weight_bytes": float(self._weight_bytes),
            "wsc_csx_weight_peak_bytes": float(self._peak_weight_bytes),
            "wsc_csx_activation_peak_bytes": float(self._peak_activation_bytes),
        }
