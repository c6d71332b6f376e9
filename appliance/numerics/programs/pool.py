"""Memory for the results of operations.

Between two layer steps a CS-2 keeps activations by the hundred, of few different sizes. In the heap
of the C library an aligned block of some size is not found again where another of the same size was
freed, as soon as something small lies beside it; so what a layer step needs for a moment, and every
layer anew, leaves holes that are never filled, and a model of many layers takes half as much again
as its activations. Here every size has blocks of its own, which are used again as soon as the last
tensor that looks at them is gone, and are never given back.
"""

import math
import mmap
import weakref

import torch

from appliance.core.ir.tensors import DType
from appliance.numerics.elements import torch_dtype

_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
SMALLEST_BYTES = 1 << 14
"""What is smaller comes from the heap: a block takes whole pages."""


class TensorPool:
    """Hands out memory for tensors; used by one thread at a time.

    Args:
        is_narrow: Whether bfloat16 values take two bytes each, instead of float32 containers; see
            `narrow_values`.
    """

    def __init__(self, *, is_narrow: bool = False) -> None:
        self.is_narrow = is_narrow
        self._free: dict[int, list[mmap.mmap]] = {}
        self._watched: dict[int, weakref.ref[memoryview]] = {}

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Return a contiguous tensor of any content."""
        count = math.prod(shape)
        num_bytes = count * dtype.itemsize
        if num_bytes < SMALLEST_BYTES:
            return torch.empty(shape, dtype=dtype)
        free = self._free.setdefault(num_bytes, [])
        block = free.pop() if free else mmap.mmap(-1, num_bytes, flags=_PRIVATE)
        view = memoryview(block)
        key, watched = id(view), self._watched

        def give_back(_: object) -> None:
            del watched[key]
            free.append(block)

        watched[key] = weakref.ref(view, give_back)
        # The tensor's storage holds the view, and nothing else does.
        return torch.frombuffer(view, dtype=dtype, count=count).view(shape)

    def element_type(self, dtype: DType) -> torch.dtype:
        """Return how elements of a type lie in this memory."""
        is_narrow = self.is_narrow and dtype is DType.BF16
        return torch.bfloat16 if is_narrow else torch_dtype(dtype)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a contiguous copy."""
        return self.empty(tuple(tensor.shape), tensor.dtype).copy_(tensor)
