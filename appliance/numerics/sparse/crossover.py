"""Whether a product with a sparse weight is faster than filling the zeros in and multiplying all.

A table of densities, measured on one processor (`python -m benchmarks.sparse_kernels`), answers for
every other: what decides is the ratio of arithmetic to loads, which vector units of different
widths share. The answer follows from shapes, values and samples alone, so every system of a job
gives the same one, and a job that runs again computes the same bits.
"""

import functools
from enum import StrEnum

import llvmlite.binding as llvm

from appliance.numerics.sparse.matrices import Pattern

_FEW_SAMPLES = 256
_LEAST_SAMPLES = 16
"""Below a vector of samples most of the work would be on samples that do not exist."""
_LEAST_OPERATIONS = 1 << 18
"""Multiply-adds of a dense product below which calls cost more than they compute."""


class Form(StrEnum):
    """What is computed."""

    PRODUCT = "product"
    """x W^T."""
    TRANSPOSED = "transposed"
    """dy W, for which the pattern is turned around."""
    GRADIENT = "gradient"
    """dy^T x at the pattern."""


_HIGHEST_DENSITY = {
    Form.PRODUCT: (0.2, 0.3),
    Form.TRANSPOSED: (0.1, 0.18),
    Form.GRADIENT: (0.12, 0.22),
}
"""Up to which the sparse form wins, with few samples and with many."""


def is_sparse_faster(form: Form, pattern: Pattern, num_samples: int) -> bool:
    """Return whether the non-zeros alone are to be multiplied.

    Args:
        form: What is computed.
        pattern: Of the weight.
        num_samples: Rows of the activations.
    """
    if num_samples < _LEAST_SAMPLES or not _has_fused_multiply_add():
        return False
    if pattern.num_rows * pattern.num_columns * num_samples < _LEAST_OPERATIONS:
        return False
    return pattern.density <= _HIGHEST_DENSITY[form][num_samples >= _FEW_SAMPLES]


@functools.cache
def _has_fused_multiply_add() -> bool:
    """Return whether the processor has that instruction; a call in its place takes far longer."""
    features = llvm.get_host_cpu_features()
    return bool(features.get("fma") or features.get("neon"))
