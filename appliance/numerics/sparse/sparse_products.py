"""Products with a sparse matrix, and the gradient of one.

The zeros of a matrix take no part: a result differs from the dense product's in the order of its
additions, and where an activation is infinite or not a number, of which a dense product makes NaN
wherever a zero meets it.

Every result is one sum in the order of the pattern (of a gradient: of the samples), so its bits do
not depend on the number of threads, nor on which samples are computed together.
"""

import math
import threading

import torch

from appliance.numerics.sparse.matrices import Pattern, SparseMatrix
from appliance.numerics.sparse.native.native_calls import ProductWork, SampledWork, functions

_WIDTH = 16
_BLOCK = 64
"""Samples that a product packs at a time."""
_MOST_SAMPLES = 1024
"""Samples that a gradient packs at a time: 4 kB for each feature of both operands."""
_LARGEST_BLOCK_BYTES = 1 << 20
"""Of the activations that a gradient looks up at random: half of a second-level cache."""
_PIECES_PER_THREAD = 8
"""Of the rows of a gradient, so that rows with more values than others do not hold up the rest."""


def product(
    x: torch.Tensor,
    matrix: SparseMatrix,
    *,
    out: torch.Tensor | None = None,
    accumulate: bool = False,
) -> torch.Tensor:
    """Return x @ W^T.

    Args:
        x: float32 [..., columns].
        matrix: W, (rows, columns).
        out: float32 [..., rows], each sample contiguous; receives the result. None makes one.
        accumulate: Whether the result is added to what is in `out`.

    Raises:
        ValueError: Shapes or types do not fit.
    """
    pattern = matrix.pattern
    samples = _samples(x, pattern.num_columns)
    if out is None:
        out = x.new_empty((*x.shape[:-1], pattern.num_rows))
        accumulate = False
    result = out.view(-1, pattern.num_rows) if out.numel() else out
    if result.stride(-1) != 1 and out.numel():
        raise ValueError(f"a product is written sample by sample, not with strides {out.stride()}")
    if out.shape != (*x.shape[:-1], pattern.num_rows) or out.dtype is not torch.float32:
        raise ValueError(f"a product of {tuple(x.shape)} was to be written to {tuple(out.shape)}")
    count = len(samples)
    if not out.numel():
        return out
    num_threads = max(1, min(torch.get_num_threads(), -(-count // _BLOCK)))
    scratch = _SCRATCH.room(num_threads * max(1, pattern.num_columns) * _BLOCK)
    work = ProductWork(
        matrix=pattern.record(matrix.values),
        x=samples.data_ptr(),
        y=result.data_ptr(),
        scratch=scratch.data_ptr(),
        samples=count,
        x_stride=samples.stride(0),
        y_stride=result.stride(0),
        accumulate=accumulate,
    )
    functions().product(work, num_threads)
    return out


def sampled_product(
    dy: torch.Tensor,
    x: torch.Tensor,
    pattern: Pattern,
    *,
    out: torch.Tensor | None = None,
    accumulate: bool = False,
) -> torch.Tensor:
    """Return dy^T @ x where the pattern has values: the gradient of W in y = x @ W^T.

    Args:
        dy: float32 [..., rows].
        x: float32 [..., columns], as many samples.
        pattern: Of W.
        out: float32 [values], contiguous; receives the result. None makes one.
        accumulate: Whether the result is added to what is in `out`.

    Raises:
        ValueError: Shapes or types do not fit.
    """
    left, right = _samples(dy, pattern.num_rows), _samples(x, pattern.num_columns)
    if len(left) != len(right):
        raise ValueError(f"a gradient was given {len(left)} and {len(right)} samples")
    if out is None:
        out, accumulate = x.new_empty(pattern.num_values), False
    if out.shape != (pattern.num_values,) or not out.is_contiguous():
        raise ValueError(f"a gradient of {pattern.num_values} values cannot be written to {out}")
    if not len(left) and not accumulate:
        out.zero_()
    for first in range(0, len(left), _MOST_SAMPLES):
        part = slice(first, first + _MOST_SAMPLES)
        _sampled(left[part], right[part], pattern, out, accumulate=accumulate or first > 0)
    return out


def _sampled(
    left: torch.Tensor,
    right: torch.Tensor,
    pattern: Pattern,
    out: torch.Tensor,
    *,
    accumulate: bool,
) -> None:
    num_threads, count = torch.get_num_threads(), len(left)
    vectors = 8 if pattern.num_columns * 8 * _WIDTH * 4 <= _LARGEST_BLOCK_BYTES else 4
    padded = -(-count // (vectors * _WIDTH)) * vectors * _WIDTH
    rows, columns = pattern.num_rows, pattern.num_columns
    scratch = _SCRATCH.room(padded * (rows + columns))
    work = SampledWork(
        matrix=pattern.record(None),
        dy=left.data_ptr(),
        x=right.data_ptr(),
        packed_dy=scratch.data_ptr(),
        packed_x=scratch.data_ptr() + 4 * padded * rows,
        out=out.data_ptr(),
        samples=count,
        dy_stride=left.stride(0),
        x_stride=right.stride(0),
        vectors=vectors,
        piece_rows=max(1, -(-rows // (num_threads * _PIECES_PER_THREAD))),
        accumulate=accumulate,
    )
    functions().sampled(work, num_threads)


def _samples(x: torch.Tensor, features: int) -> torch.Tensor:
    """Return activations as a matrix of samples, the features of each side by side."""
    if x.dtype is not torch.float32 or x.shape[-1:] != (features,):
        raise ValueError(
            f"a sparse product of {features} features was given {x.dtype} of {tuple(x.shape)}"
        )
    samples = x.reshape(math.prod(x.shape[:-1]), features)
    return samples if samples.stride(-1) == 1 or features == 1 else samples.contiguous()


class _Scratch(threading.local):
    """Memory of a thread for packed activations; it stays, as large as was ever needed."""

    def __init__(self) -> None:
        self._tensor = torch.empty(0)

    def room(self, size: int) -> torch.Tensor:
        """Return room for at least so many numbers; in use until the next call."""
        if self._tensor.numel() < size:
            self._tensor = torch.empty(size)
        return self._tensor


_SCRATCH = _Scratch()
