"""Products of matrices into float32 ones by oneDNN, where the processor is AMD's.

PyTorch computes them by MKL, whose best kernels are for Intel's processors; on an EPYC with AVX-512
oneDNN takes four fifths to nine tenths of the time. PyTorch has a oneDNN of its own inside, but its
calls return memory of their own; here it writes where it is told, and works in memory that it is
given (docs/decisions/0045-products-by-onednn-on-amd.md).

Which library computes depends on the processor alone and never on a measurement, so that a machine
gives the same bits in every run. oneDNN uses the OpenMP library that PyTorch has loaded, and so the
number of threads that PyTorch was told to use.

The names and numbers are those of oneDNN's C interface, version 3 (dnnl.h, dnnl_types.h).
"""

import ctypes
import functools
import importlib.metadata
import logging
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from appliance.core.errors import InternalError

logger = logging.getLogger(__name__)

_PACKAGE = "onednn-cpu-gomp"
_LIBRARY = "libdnnl.so.3"
_OPENMP = "libgomp.so.1"

_CPU, _IN_ORDER, _SCRATCHPAD_IS_GIVEN = 1, 1, 1
_TYPES = {torch.bfloat16: 2, torch.float32: 3}
_UNIMPLEMENTED = 3
_QUERY_NAME, _QUERY_SCRATCHPAD = 8, 136
_LEFT, _RIGHT, _RESULT, _SCRATCHPAD = 1, 33, 17, 80
"""Arguments of a matmul primitive."""

_Handle, _Int, _Size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_New = ctypes.POINTER(_Handle)
_Sizes = ctypes.c_int64 * 2

_FUNCTIONS = {
    "dnnl_engine_create": (_New, _Int, _Size),
    "dnnl_stream_create": (_New, _Handle, _Int),
    "dnnl_primitive_attr_create": (_New,),
    "dnnl_primitive_attr_set_scratchpad_mode": (_Handle, _Int),
    "dnnl_memory_desc_create_with_strides": (_New, _Int, _Sizes, _Int, _Sizes),
    "dnnl_matmul_primitive_desc_create": (
        *(_New, _Handle, _Handle, _Handle, _Handle, _Handle, _Handle),
    ),
    "dnnl_primitive_desc_query": (_Handle, _Int, _Int, ctypes.POINTER(ctypes.c_char_p)),
    "dnnl_primitive_create": (_New, _Handle),
    "dnnl_memory_create": (_New, _Handle, _Handle, _Handle),
    "dnnl_memory_set_data_handle": (_Handle, _Handle),
    "dnnl_primitive_execute": (_Handle, _Handle, _Int, ctypes.c_void_p),
}
"""What is called, with its arguments; each returns a status, 0 if all is well."""


class _Argument(ctypes.Structure):
    """What a primitive reads or writes: `dnnl_exec_arg_t`."""

    _fields_ = (("arg", _Int), ("memory", _Handle))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """A product of matrices of given sizes and distances, for one call at a time.

    Attributes:
        primitive: Computes it.
        stream: Where it is computed.
        memories: Stand for left, right, result and scratchpad; told for each call where those lie.
        arguments: The same as the primitive takes them.
        scratch_bytes: What it works in.
    """

    primitive: ctypes.c_void_p
    stream: ctypes.c_void_p
    memories: tuple[ctypes.c_void_p, ...]
    arguments: "ctypes.Array[_Argument]"
    scratch_bytes: int


class Gemm:
    """Products of two matrices in the memory of the processor; any thread may ask for one.

    Args:
        library: oneDNN.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, arguments in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, _Int
        library.dnnl_primitive_desc_query_md.argtypes = (_Handle, _Int, _Int)
        library.dnnl_primitive_desc_query_md.restype = _Handle
        library.dnnl_memory_desc_get_size.argtypes = (_Handle,)
        library.dnnl_memory_desc_get_size.restype = _Size
        self._library = library
        self._execute = library.dnnl_primitive_execute
        self._lay = library.dnnl_memory_set_data_handle
        self._engine = self._new("dnnl_engine_create", _CPU, 0)
        self._attributes = self._new("dnnl_primitive_attr_create")
        self._call(
            "dnnl_primitive_attr_set_scratchpad_mode", self._attributes, _SCRATCHPAD_IS_GIVEN
        )
        # Those that nobody uses now, by all that a primitive depends on. There are as many keys as
        # a plan has shapes of products; of each, as many products as threads wanted at a time.
        self._free: dict[tuple[object, ...], list[_Product]] = {}
        self._impossible: set[tuple[object, ...]] = set()
        self._scratches: list[torch.Tensor] = []

    def try_into(self, out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> bool:
        """Write a product, if this library has a good way for what is given as it lies.

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
        free = self._free.setdefault(key, [])
        try:
            product = free.pop()
        except IndexError:
            prepared = None if key in self._impossible else self._prepare(out, a, b)
            if prepared is None:
                self._impossible.add(key)
                return False
            product = prepared
        self._run(product, a, b, out)
        free.append(product)
        return True

    def _run(self, product: _Product, *tensors: torch.Tensor) -> None:
        scratch = self._scratch(product.scratch_bytes)
        for memory, tensor in zip(product.memories, (*tensors, scratch), strict=True):
            self._lay(memory, tensor.data_ptr())
        arguments = product.arguments
        status = self._execute(product.primitive, product.stream, len(arguments), arguments)
        self._scratches.append(scratch)
        _check(status, "dnnl_primitive_execute")

    def _scratch(self, num_bytes: int) -> torch.Tensor:
        try:
            scratch = self._scratches.pop()
        except IndexError:
            return torch.empty(num_bytes, dtype=torch.uint8)
        return scratch if scratch.numel() >= num_bytes else scratch.new_empty(num_bytes)

    def _prepare(self, out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> _Product | None:
        if out.stride(1) != 1 or a.dtype not in _TYPES:
            return None
        layouts = [self._layout(each) for each in (a, b, out)]
        if any(layout is None for layout in layouts):
            return None
        description = ctypes.c_void_p()
        left, right, result = layouts
        status = self._library.dnnl_matmul_primitive_desc_create(
            *(ctypes.byref(description), self._engine, left, right, None, result),
            self._attributes,
        )
        if status == _UNIMPLEMENTED:
            return None
        _check(status, "dnnl_matmul_primitive_desc_create")
        if self._name(description).startswith("ref"):  # loops that show what is meant
            return None
        scratchpad = ctypes.c_void_p(
            self._library.dnnl_primitive_desc_query_md(description, _QUERY_SCRATCHPAD, 0)
        )
        memories = tuple(
            self._new("dnnl_memory_create", layout, self._engine, None)
            for layout in (*layouts, scratchpad)
        )
        numbers = (_LEFT, _RIGHT, _RESULT, _SCRATCHPAD)
        pairs = map(_Argument, numbers, memories)
        return _Product(
            primitive=self._new("dnnl_primitive_create", description),
            stream=self._new("dnnl_stream_create", self._engine, _IN_ORDER),
            memories=memories,
            arguments=(_Argument * len(numbers))(*pairs),
            scratch_bytes=self._library.dnnl_memory_desc_get_size(scratchpad),
        )

    def _layout(self, matrix: torch.Tensor) -> ctypes.c_void_p | None:
        strides = _strides(matrix)
        if strides is None:
            return None
        sizes, distances = _Sizes(*matrix.shape), _Sizes(*strides)
        number = _TYPES[matrix.dtype]
        return self._new("dnnl_memory_desc_create_with_strides", 2, sizes, number, distances)

    def _name(self, description: ctypes.c_void_p) -> str:
        name = ctypes.c_char_p()
        self._call("dnnl_primitive_desc_query", description, _QUERY_NAME, 0, ctypes.byref(name))
        return (name.value or b"").decode()

    def _new(self, name: str, *arguments: object) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._call(name, ctypes.byref(handle), *arguments)
        return handle

    def _call(self, name: str, *arguments: object) -> None:
        _check(getattr(self._library, name)(*arguments), name)


def _check(status: int, what: str) -> None:
    if status != 0:
        raise InternalError(f"oneDNN refused {what}: status {status}.")


def _strides(matrix: torch.Tensor) -> tuple[int, int] | None:
    """Return the strides of a matrix that lies row by row or column by column, else None.

    That of an axis of one element says nothing, and becomes one that is possible.
    """
    rows, columns = matrix.shape
    down, right = matrix.stride()
    if right == 1 and (down >= columns or rows == 1):
        return max(down, columns), 1
    if down == 1 and (right >= rows or columns == 1):
        return 1, max(right, rows)
    return None


@functools.cache
def find_gemm() -> Gemm | None:
    """Return the product by oneDNN; None where products are better left to PyTorch."""
    return load_gemm() if _is_amd() else None


@functools.cache
def load_gemm() -> Gemm | None:
    """Return the product by oneDNN, whatever the processor; None where there is no such library."""
    path = _library_path()
    if path is None:
        return None
    try:
        # With an OpenMP library of its own it would use as many threads as there are cores.
        ctypes.CDLL(_OPENMP, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        library = ctypes.CDLL(str(path))
    except OSError as error:
        logger.warning("Products are not computed by oneDNN", extra={"reason": str(error)})
        return None
    return Gemm(library)


def _is_amd() -> bool:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return False
    return any(line.startswith("vendor_id") and line.endswith("AuthenticAMD") for line in lines)


def _library_path() -> Path | None:
    """Return where the package has put its library; None where it is not installed."""
    try:
        files = importlib.metadata.files(_PACKAGE) or ()
    except importlib.metadata.PackageNotFoundError:  # there is none for this kind of processor
        return None
    return next((Path(str(file.locate())) for file in files if file.name == _LIBRARY), None)
