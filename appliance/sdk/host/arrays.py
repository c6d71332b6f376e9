"""Arrays of the host as words of the device, and back.

A copy moves `l` elements for each PE of a rectangle of `w` columns and `h` rows. The host's array
is flat and always of 32-bit elements; 16-bit data lies in their low halves. In row-major order
element `i` of PE `(x, y)` is at `(y * w + x) * l + i`, in column-major order at
`(i * w + x) * h + y`. Between here and the simulator arrays have the shape `(h, w, l)`.
"""

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Words = NDArray[np.uint32]

# `Any`: element types that the program on the host chooses.
HostArray = NDArray[Any]


class MemcpyDataType(IntEnum):
    """Width of the elements that a copy moves; the numbers are those of the SDK's wire."""

    MEMCPY_32BIT = 0
    MEMCPY_16BIT = 1

    @property
    def num_bits(self) -> int:
        """The width."""
        return 16 if self is MemcpyDataType.MEMCPY_16BIT else 32


class MemcpyOrder(IntEnum):
    """Order of a copy's elements on the host; the numbers are those of the SDK's wire."""

    ROW_MAJOR = 0
    COL_MAJOR = 1


def to_device(source: HostArray, order: MemcpyOrder, *, w: int, h: int, l: int) -> Words:  # noqa: E741
    """Return a host's array in the shape `(h, w, l)`; it shares no memory with the array.

    An array may be longer than what the copy takes: its beginning is sent.

    Raises:
        ValueError: Its elements have another width than 32 bits, or there are too few.
    """
    words = _words(source)[: h * w * l]
    if words.size != h * w * l:
        raise ValueError(
            f"the array has {words.size} elements; {w} x {h} PEs with {l} each take {w * h * l}"
        )
    if order is MemcpyOrder.ROW_MAJOR:
        return words.reshape(h, w, l).copy()
    return np.ascontiguousarray(words.reshape(l, w, h).transpose(2, 1, 0))


def to_host(data_hwl: Words, target: HostArray, order: MemcpyOrder) -> None:
    """Write what a copy brought into the beginning of a host's array of any shape and strides.

    Raises:
        ValueError: Its elements have another width than 32 bits, or there are too few.
    """
    check_target(target, data_hwl.size)
    ordered = data_hwl if order is MemcpyOrder.ROW_MAJOR else data_hwl.transpose(2, 1, 0)
    target.flat[: data_hwl.size] = np.ascontiguousarray(ordered).reshape(-1).view(target.dtype)


def check_target(target: HostArray, size: int) -> None:
    """Raise `ValueError` unless an array can take so many elements of 32 bits; it may be longer."""
    if target.dtype.itemsize != 4:
        raise ValueError(f"the array has elements of type {target.dtype}; they must have 32 bits")
    if target.size < size:
        raise ValueError(f"the array has {target.size} elements; the copy brings {size}")


def _words(source: HostArray) -> Words:
    if source.dtype.itemsize != 4:
        raise ValueError(f"the array has elements of type {source.dtype}; they must have 32 bits")
    return np.ascontiguousarray(source).reshape(-1).view(np.uint32)


def memcpy_view(arr: HostArray, datatype: DTypeLike) -> HostArray:
    """Return a view of the low 32, 16 or 8 bits of each element of an array of 32-bit elements.

    Raises:
        RuntimeError: The array's elements, or the view's, have another width.
    """
    dtype = np.dtype(datatype)
    if arr.itemsize != 4:
        raise RuntimeError(f"memcpy_view takes arrays of 32-bit elements; these have {arr.dtype}.")
    if dtype.itemsize not in (1, 2, 4):
        raise RuntimeError(f"memcpy_view gives views of 8, 16 or 32 bits, not of {dtype}.")
    low = np.dtype({"names": ["low"], "formats": [dtype], "offsets": [0], "itemsize": 4})
    view: HostArray = arr.view(low)["low"]
    return view


def input_array_to_u32(np_arr: HostArray, sentinel: int | None, fast_dim_sz: int) -> Words:
    """Return a flat array of 16- or 32-bit elements as 32-bit words.

    Args:
        sentinel: None fills the high halves of 16-bit elements with zeros; anything else with the
            element's index in the innermost dimension.
        fast_dim_sz: Size of the innermost dimension.
    """
    if np_arr.ndim != 1:
        raise ValueError(f"The array must be flat; its shape is {np_arr.shape}.")
    if np_arr.itemsize == 4:
        return np_arr.view(np.uint32)
    if np_arr.itemsize != 2:
        raise ValueError(f"Elements must have 16 or 32 bits; these are {np_arr.dtype}.")
    words: Words = np_arr.view(np.uint16).astype(np.uint32)
    if sentinel is not None:
        index = np.arange(words.size, dtype=np.uint32) % np.uint32(fast_dim_sz)
        words |= index << np.uint32(16)
    return words


def calculate_cycles(timestamp_buf: NDArray[np.float32]) -> np.int64:
    """Return the cycles between two 48-bit time stamps that travel as three 32-bit words."""
    words = np.ascontiguousarray(timestamp_buf[:3], dtype=np.float32).view(np.uint16)
    start, end = (
        sum(int(word) << (16 * place) for place, word in enumerate(half))
        for half in (words[:3], words[3:])
    )
    return np.int64(end - start)
