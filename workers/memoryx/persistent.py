"""Tensors that outlive the sessions of a job, by the number the client gave them.

They stay in the memory of the session that created them: nothing writes there any more, and the
memory lives as long as a view of it does.
"""

import threading

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import ClusterError, ConflictError, NotFoundError
from appliance.core.ir.tensors import TensorType
from workers.memoryx.on_disk.block_checksums import DAMAGE_HINT, Sums, sums_of

Tensor = tuple[TensorType, NDArray[np.generic]]
_Kept = tuple[TensorType, NDArray[np.generic], Sums]


class PersistentTensors:
    """The persistent tensors of a job."""

    def __init__(self) -> None:
        self._tensors: dict[int, _Kept] = {}
        self._lock = threading.Lock()

    def keep(
        self,
        persistent_id: int,
        type_: TensorType,
        value: NDArray[np.generic],
        sums: Sums = (),
    ) -> None:
        """Store a value that nothing writes any more; replaces an older one of that number.

        One that lies in a file has checksums.
        """
        with self._lock:
            self._tensors[persistent_id] = type_, value, sums

    def get(self, persistent_id: int) -> Tensor:
        """Return a tensor's type and value.

        Raises:
            NotFoundError: There is no persistent tensor of that number.
            ClusterError: It is not what was stored.
        """
        with self._lock:
            if persistent_id not in self._tensors:
                raise NotFoundError(f"The job has no persistent tensor {persistent_id}.")
            type_, value, sums = self._tensors[persistent_id]
        if sums and sums_of(np.ascontiguousarray(value).reshape(-1).view(np.uint8)) != sums:
            raise ClusterError(
                f"Persistent tensor {persistent_id} is not what was written.", hint=DAMAGE_HINT
            )
        return type_, value

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
