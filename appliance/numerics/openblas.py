"""Products of matrices by OpenBLAS, as NumPy's wheels bring it.

On processors of AMD's without AVX-512 it is the fastest for most of a transformer's products
(docs/decisions/0138-kernels-are-chosen-by-measurement.md). It is called directly: NumPy would want
results without gaps. It has threads of its own, apart from OpenMP's, and is therefore used by
single threads only.
"""

import ctypes
import functools
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from appliance.numerics.matrix_strides import matrix_strides

logger = logging.getLogger(__name__)

_BY_ROWS, _AS_IT_IS, _TRANSPOSED = 101, 111, 112
"""CBLAS's names for how matrices lie."""

_PATTERN = "libscipy_openblas64_*.so*"
_SUFFIX = "64_"
"""Of the functions whose integers have 64 bits; NumPy's builds prefix all with `scipy_`."""

_Int, _Long, _Float, _Pointer = ctypes.c_int, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
_SGEMM_ARGUMENTS = (
    *(_Int, _Int, _Int, _Long, _Long, _Long),
    *(_Float, _Pointer, _Long, _Pointer, _Long, _Float, _Pointer, _Long),
)


class OpenBlas:
    """Products of two matrices on the calling thread; any thread may ask for one.

    Args:
        library: The shared library; its own threads are turned off.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._multiply: Callable[..., None] = library[f"scipy_cblas_sgemm{_SUFFIX}"]
        self._multiply.argtypes, self._multiply.restype = _SGEMM_ARGUMENTS, None
        library[f"scipy_openblas_set_num_threads{_SUFFIX}"](1)
        describe = library[f"scipy_openblas_get_config{_SUFFIX}"]
        describe.restype = ctypes.c_char_p
        self.description = " ".join((describe() or b"").decode().split()[:2])
        """Name and version."""

    def try_into(self, out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> bool:
        """Write a product, if the operands' types and layouts are ones that BLAS knows.

        Args:
            out: Receives it: (rows, columns), float32.
            a: (rows, inner size), float32.
            b: (inner size, columns), float32.

        Returns:
            Whether the product is there; if not, nothing was done: also where operations are to
            use several threads.
        """
        if not (out.is_cpu and out.dtype is a.dtype is b.dtype is torch.float32):
            return False
        if torch.get_num_threads() != 1:
            return False
        if out.stride(1) != 1:  # its mirror image may lie row by row
            out, a, b = out.mT, b.mT, a.mT
        left, right, result = matrix_strides(a), matrix_strides(b), matrix_strides(out)
        if left is None or right is None or result is None or result[1] != 1:
            return False
        rows, columns = out.shape
        self._multiply(
            *(_BY_ROWS, _form(left), _form(right), rows, columns, a.shape[1]),
            *(1.0, a.data_ptr(), max(left), b.data_ptr(), max(right)),
            *(0.0, out.data_ptr(), result[0]),
        )
        return True


def _form(strides: tuple[int, int]) -> int:
    return _AS_IT_IS if strides[1] == 1 else _TRANSPOSED


@functools.cache
def load_openblas() -> OpenBlas | None:
    """Return products by OpenBLAS; None where NumPy has not brought it."""
    folder = Path(np.__file__).parent.parent / "numpy.libs"
    path = next(iter(sorted(folder.glob(_PATTERN))), None)
    if path is None:
        return None
    try:
        return OpenBlas(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        logger.warning("Nothing is computed by OpenBLAS", extra={"reason": str(error)})
        return None
