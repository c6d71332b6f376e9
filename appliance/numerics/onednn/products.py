"""Products of matrices into float32 ones by oneDNN.

Those of bfloat16 matrices on every processor that multiplies these, since PyTorch's results have
the operands' type. Those of float32 matrices where the processor is AMD's: PyTorch computes them by
MKL, whose best kernels are for Intel's processors; on an EPYC with AVX-512
oneDNN takes four fifths to nine tenths of the time; see
docs/decisions/0045-onednn-for-matrix-products-on-amd.md.
"""

import functools

import torch

from appliance.numerics.matrix_strides import matrix_strides
from appliance.numerics.onednn.library import Handle, Library, Primitive, Unused, load_library
from appliance.numerics.processor import cpu_info

_LEFT, _RIGHT, _RESULT = 1, 33, 17
"""Arguments of a matmul primitive."""

_DTYPES = frozenset({torch.bfloat16, torch.float32})


class Gemm:
    """Products of two matrices in the memory of the processor; any thread may ask for one.

    Args:
        library: oneDNN.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._unused: Unused[Primitive] = Unused()

    def try_into(self, out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> bool:
        """Write a product, if oneDNN has an optimized kernel for the layouts of the operands.

        Args:
            out: Receives it: (rows, columns), float32.
            a: (rows, inner size), float32 or bfloat16.
            b: (inner size, columns), of the same type. The products of bfloat16 numbers are exact
                in float32, and so are sums kept.

        Returns:
            Whether the product is there; if not, nothing was done.

        Raises:
            InternalError: The library refuses a call.
        """
        if not (out.is_cpu and out.dtype is torch.float32 and a.dtype is b.dtype):
            return False
        if out.stride(1) != 1:  # its mirror image may lie row by row
            out, a, b = out.mT, b.mT, a.mT
        num_threads = torch.get_num_threads()
        key = (a.dtype, a.shape, a.stride(), b.shape, b.stride(), out.stride(), num_threads)
        product = self._unused.take(key, lambda: self._prepare(out, a, b))
        if product is None:
            return False
        self._library.run(product, a, b, out)
        self._unused.give_back(key, product)
        return True

    def _prepare(self, out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Primitive | None:
        if out.stride(1) != 1 or a.dtype not in _DTYPES:
            return None
        left, right, result = (self._layout(each) for each in (a, b, out))
        if left is None or right is None or result is None:
            return None
        description = self._library.description(
            "dnnl_matmul_primitive_desc_create",
            *(self._library.engine, left, right, None, result, self._library.attributes),
        )
        if description is None:
            return None
        layouts = {_LEFT: left, _RIGHT: right, _RESULT: result}
        return self._library.primitive(description, layouts)

    def _layout(self, matrix: torch.Tensor) -> Handle | None:
        strides = matrix_strides(matrix)
        if strides is None:
            return None
        return self._library.layout(matrix.shape, strides, matrix.dtype)


@functools.cache
def find_gemm(*, is_left_transposed: bool) -> Gemm | None:
    """Return the product by oneDNN; None where such products are better left to PyTorch.

    Args:
        is_left_transposed: Whether the left matrix is given transposed, as in a weight's gradient:
            with AVX2 alone oneDNN is faster for these only (docs/decisions/0045).
    """
    features = _amd_features()
    return load_gemm() if "avx512f" in features or (features and is_left_transposed) else None


@functools.cache
def load_gemm() -> Gemm | None:
    """Return the product by oneDNN, whatever the processor; None where there is no such library."""
    library = load_library()
    return None if library is None else Gemm(library)


def _amd_features() -> frozenset[str]:
    """Return what an AMD processor has, by Linux's names; nothing for another processor."""
    found = cpu_info()
    is_amd = found.get("vendor_id") == "AuthenticAMD"
    return frozenset(found.get("flags", "").split()) if is_amd else frozenset()
