"""Tensors that outlive the sessions of a job, by the number the client gave them.

They stay in the memory of the session that created them: nothing writes there any more, and the
memory lives as long as a view of it does.
"""

import threading

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import ConflictError, NotFoundError
from appliance.core.ir.tensors import TensorType

Tensor = tuple[TensorType, NDArray[np.generic]]


class PersistentTensors:
    """The persistent tensors of a job."""

    def __init__(self) -> None:
        self._tensors: dict[int, Tensor] = {}
        self._lock = threading.Lock()

    def keep(self, persistent_id: int, type_: TensorType, value: NDArray[np.generic]) -> None:
        """Store a value that nothing writes any more; replaces an older one of that number."""
        with self._lock:
            self._tensors[persistent_id] = type_, value

    def get(self, persistent_id: int) -> Tensor:
        """Return a tensor's type and value.

        Raises:
            NotFoundError: There is no persistent tensor of that number.
        """
        with self._lock:
            if persistent_id not in self._tensors:
                raise NotFoundError(f"The job has no persistent tensor {persistent_id}.")
            return self._tensors[persistent_id]

    def of_type(self, persistent_id: int, type_: TensorType) -> NDArray[np.generic]:
        """Return a tensor's value.

        Raises:
            NotFoundError: There is no persistent tensor of that number.
            ConflictError: Its type is another one.
        """
        present, value = self.get(persistent_id)
        if present != type_:
            raise ConflictError(
                f"Persistent tensor {persistent_id} is {present}, but {type_} is needed."
            )
        return value

    def delete(self, persistent_id: int) -> None:
        """Forget a tensor.

        Raises:
            NotFoundError: There is no persistent tensor of that number.
        """
        with self._lock:
            if self._tensors.pop(persistent_id, None) is None:
                raise NotFoundError(f"The job has no persistent tensor {persistent_id}.")
