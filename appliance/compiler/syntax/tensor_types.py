"""Tensor types as text."""

import re
from functools import lru_cache

from appliance.compiler.syntax.cursor import Cursor
from appliance.core.ir.tensors import DType, TensorType

_TENSOR = re.compile(r"tensor<((?:[0-9]+x)*)([a-z]+[0-9]+)>")
_VECTOR = re.compile(r"vector<([0-9]+x)([a-z]+[0-9]+)>")
_ANY_TENSOR = re.compile(r"tensor<[^>\n]*>?")
_SCALAR = re.compile(r"index|none|(?:[su]?i|bf|f)[0-9]+")

_ELEMENTS = {
    **{dtype.value: dtype for dtype in DType if dtype is not DType.CB16},
    **{f"ui{bits}": DType(f"u{bits}") for bits in (8, 16, 32, 64)},
    **{f"si{bits}": DType(f"i{bits}") for bits in (8, 16, 32, 64)},
}


def parse_tensor_type(cursor: Cursor) -> TensorType:
    """Read a tensor type with static shape.

    Raises:
        ProgramError: It is something else, or has sizes or elements that are not supported.
    """
    start = cursor.position
    found = cursor.match(_TENSOR)
    if found is None:
        other = cursor.match(_ANY_TENSOR)
        if other is None:
            raise cursor.error("a tensor type")
        raise cursor.problem(f"type {other.group()} is not supported", position=start)
    return _named_type(found, cursor, start)


def parse_constant_type(cursor: Cursor) -> TensorType:
    """Read the type of a dense constant: a tensor's, or a vector's, as attributes of MLIR have.

    Raises:
        ProgramError: It is something else, or has sizes or elements that are not supported.
    """
    start = cursor.position
    found = cursor.match(_VECTOR)
    return parse_tensor_type(cursor) if found is None else _named_type(found, cursor, start)


def _named_type(found: re.Match[str], cursor: Cursor, start: int) -> TensorType:
    type_ = _tensor_type(found.group(1), found.group(2))
    if type_ is None:
        raise cursor.problem(f"type {found.group()} is not supported", position=start)
    return type_


@lru_cache(maxsize=4096)
def _tensor_type(sizes: str, element: str) -> TensorType | None:
    dtype = _ELEMENTS.get(element)
    if dtype is None:
        return None
    return TensorType(tuple(int(size) for size in sizes.split("x")[:-1]), dtype)


def skip_scalar_type(cursor: Cursor) -> bool:
    """Move over the type of a scalar attribute, if there is one."""
    return cursor.match(_SCALAR) is not None
