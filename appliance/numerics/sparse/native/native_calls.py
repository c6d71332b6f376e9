"""Calls of the compiled products: records by address, on one thread or on torch's team."""

import ctypes
import functools
from importlib import resources

from appliance.numerics.loops.machine_code import compile_bitcode, share_work

_INTEGER, _ADDRESS = ctypes.c_int64, ctypes.c_void_p


class MatrixRecord(ctypes.Structure):
    """`struct matrix` of products.h."""

    _fields_ = (
        ("num_rows", _INTEGER),
        ("num_columns", _INTEGER),
        ("is_long", _INTEGER),
        ("offsets", _ADDRESS),
        ("columns", _ADDRESS),
        ("values", _ADDRESS),
    )


class ProductWork(ctypes.Structure):
    """`struct product_work` of products.h."""

    _fields_ = (
        ("next_piece", _INTEGER),
        ("next_thread", _INTEGER),
        ("matrix", MatrixRecord),
        ("x", _ADDRESS),
        ("y", _ADDRESS),
        ("scratch", _ADDRESS),
        ("samples", _INTEGER),
        ("x_stride", _INTEGER),
        ("y_stride", _INTEGER),
        ("accumulate", _INTEGER),
    )


class SampledWork(ctypes.Structure):
    """`struct sampled_work` of products.h."""

    _fields_ = (
        ("next_piece", _INTEGER),
        ("matrix", MatrixRecord),
        ("dy", _ADDRESS),
        ("x", _ADDRESS),
        ("packed_dy", _ADDRESS),
        ("packed_x", _ADDRESS),
        ("out", _ADDRESS),
        ("samples", _INTEGER),
        ("dy_stride", _INTEGER),
        ("x_stride", _INTEGER),
        ("vectors", _INTEGER),
        ("piece_rows", _INTEGER),
        ("accumulate", _INTEGER),
    )


class TransposeWork(ctypes.Structure):
    """`struct transpose_work` of products.h."""

    _fields_ = (
        ("matrix", MatrixRecord),
        ("is_long", _INTEGER),
        ("offsets", _ADDRESS),
        ("rows", _ADDRESS),
        ("sources", _ADDRESS),
    )


class ConversionWork(ctypes.Structure):
    """`struct conversion_work` of products.h."""

    _fields_ = (("matrix", MatrixRecord), ("values", _ADDRESS), ("dense", _ADDRESS))


class BitmapWork(ctypes.Structure):
    """`struct bitmap_work` of products.h."""

    _fields_ = (
        ("num_rows", _INTEGER),
        ("num_columns", _INTEGER),
        ("num_values", _INTEGER),
        ("is_long", _INTEGER),
        ("bits", _ADDRESS),
        ("offsets", _ADDRESS),
        ("columns", _ADDRESS),
        ("is_whole", _INTEGER),
    )


class CheckWork(ctypes.Structure):
    """`struct check_work` of products.h."""

    _fields_ = (
        ("matrix", MatrixRecord),
        ("num_values", _INTEGER),
        ("are_offsets", _INTEGER),
        ("are_columns", _INTEGER),
    )


_FUNCTIONS = (
    "sparse_product",
    "sparse_pack",
    "sparse_sampled",
    "sparse_transpose",
    "sparse_fill",
    "sparse_take",
    "sparse_unpack",
    "sparse_check",
)


class Functions:
    """The compiled functions."""

    def __init__(self) -> None:
        bitcode = (resources.files(__package__) / "products.bc").read_bytes()
        addresses = compile_bitcode(bitcode, _FUNCTIONS)
        self._product, self._pack, self._sampled, *alone = addresses
        self._call = ctypes.CFUNCTYPE(None, _ADDRESS)
        self._transpose, self._fill, self._take, self._unpack, self._check = map(self._call, alone)

    def product(self, work: ProductWork, num_threads: int) -> None:
        """Compute what is described, block by block of samples."""
        work.next_piece = work.next_thread = 0
        self._share(self._product, work, num_threads)

    def sampled(self, work: SampledWork, num_threads: int) -> None:
        """Compute what is described: pack blocks of samples first, and divide the rows then."""
        work.next_piece = 0
        self._share(self._pack, work, num_threads)
        work.next_piece = 0
        self._share(self._sampled, work, num_threads)

    def transpose(self, work: TransposeWork) -> None:
        """Compute what is described."""
        self._transpose(ctypes.addressof(work))

    def fill(self, work: ConversionWork) -> None:
        """Write the values and zeros to the dense matrix."""
        self._fill(ctypes.addressof(work))

    def take(self, work: ConversionWork) -> None:
        """Read the values out of the dense matrix."""
        self._take(ctypes.addressof(work))

    def unpack(self, work: BitmapWork) -> bool:
        """Write offsets and columns of a bitmap; return whether it has as many ones as it ought."""
        self._unpack(ctypes.addressof(work))
        return bool(work.is_whole)

    def check(self, work: CheckWork) -> None:
        """Say whether offsets and columns of a pattern are right."""
        self._check(ctypes.addressof(work))

    def _share(self, address: int, work: ctypes.Structure, num_threads: int) -> None:
        share = share_work() if num_threads > 1 else None
        if share is None:
            self._call(address)(ctypes.addressof(work))
        else:
            share(address, ctypes.byref(work), num_threads, 0)


@functools.cache
def functions() -> Functions:
    """Return the functions, compiled for this processor the first time."""
    return Functions()
