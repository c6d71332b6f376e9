"""Where the values of a masked tensor lie in it, and moving them there and back.

`appliance.core.sparsity.mask_patterns` defines what a pattern's bytes mean; what is here agrees
with it.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from appliance.core.sparsity.encodings import Encoding, MatrixShape

Places = torch.Tensor
"""int64 (values,), ascending: the row-major place of each value."""


def places_of(packed: NDArray[np.uint8], shape: MatrixShape, encoding: Encoding) -> Places:
    """Return the places that a pattern names.

    Args:
        packed: The pattern's bytes, as MemoryX has written them.
        shape: Of the tensor.
        encoding: `BITMAP` or `ROWS`.

    Raises:
        ValueError: The tensor has no pattern, as it is dense.
    """
    match encoding:
        case Encoding.BITMAP:
            bits = np.unpackbits(packed, count=shape.num_elements, bitorder="little")
            return torch.from_numpy(np.flatnonzero(bits))
        case Encoding.ROWS:
            end = 8 * (shape.rows + 1)
            offsets, columns = packed[:end].view(np.int64), packed[end:].view(shape.column_type)
            starts = np.arange(shape.rows, dtype=np.int64) * shape.columns
            return torch.from_numpy(np.repeat(starts, np.diff(offsets)) + columns)
        case Encoding.DENSE:
            raise ValueError("a dense tensor has no pattern")


def scatter(values: torch.Tensor, places: Places, out: torch.Tensor) -> None:
    """Write a whole tensor.

    Args:
        values: What its mask lets through, in row-major order.
        places: Where they lie.
        out: The tensor, contiguous; every other element becomes zero.
    """
    out.zero_().view(-1).index_copy_(0, places, values)


def gather(whole: torch.Tensor, places: Places, out: torch.Tensor) -> None:
    """Write what a mask lets through.

    Args:
        whole: The tensor, contiguous.
        places: Where the values lie.
        out: Receives them, in row-major order.
    """
    torch.index_select(whole.view(-1), 0, places, out=out)
