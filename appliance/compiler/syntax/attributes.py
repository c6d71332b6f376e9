"""Attribute values as text: numbers, strings, arrays, dictionaries, dense constants."""

import re
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from appliance.compiler.syntax.cursor import Cursor
from appliance.compiler.syntax.tensor_types import (
    parse_constant_type,
    parse_tensor_type,
    skip_scalar_type,
)
from appliance.core.ir.graph import Attribute
from appliance.core.ir.tensors import Constant, DType, TensorType

AttributeDict = dict[str, Attribute]

IGNORED: Final = "cs.internal"
"""Notes of the front end to itself; they carry no meaning for the computation."""

_EXPERTS: Final = "expert_block_info."
"""The one note that is kept: of how many experts a row goes to how many."""

_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)")
_DENSE_BODY = re.compile(r'dense<(?:"0x([0-9a-fA-F]*)"|([^>"]*))>')
_ELEMENT = re.compile(r"[^\s,\[\]]+")
_SYMBOL = re.compile(r"@[A-Za-z0-9_$.]+|#[A-Za-z0-9_$.]+")

_STORAGE: dict[DType, np.dtype[np.generic]] = {
    DType.F16: np.dtype("<f2"),
    DType.F32: np.dtype("<f4"),
    DType.F64: np.dtype("<f8"),
}


def parse_dict(cursor: Cursor) -> AttributeDict:
    """Read `{name = value, unit, ...}`; nested dictionaries are flattened with dotted names."""
    attributes: AttributeDict = {}
    cursor.expect("{")
    while not cursor.accept("}"):
        name = (
            cursor.string() if cursor.peek('"') else cursor.identifier("an attribute name or '}'")
        )
        _parse_entry(cursor, name, attributes)
        if not cursor.accept(","):
            cursor.expect("}")
            break
    return attributes


def _parse_entry(cursor: Cursor, name: str, attributes: AttributeDict) -> None:
    if not cursor.accept("="):
        attributes[name] = True
        return
    if not cursor.peek("{"):
        attributes[name] = parse_value(cursor)
        return
    nested = parse_dict(cursor)
    if name == IGNORED:
        attributes.update({k: v for k, v in nested.items() if k.startswith(_EXPERTS)})
    else:
        attributes.update({f"{name}.{key}": value for key, value in nested.items()})


def parse_value(cursor: Cursor) -> Attribute:
    """Read one attribute value.

    Integer vectors become tuples, other dense values constants.

    Raises:
        ProgramError: The text is no attribute value of a kind that a program needs.
    """
    for start, parse in _VALUE_KINDS:
        if cursor.peek(start):
            return parse(cursor)
    found = cursor.match(_NUMBER)
    if found is not None:
        return _number(cursor, found.group())
    if skip_scalar_type(cursor):
        return ""
    raise cursor.error("an attribute value")


def _parse_bool(cursor: Cursor) -> bool:
    word = cursor.identifier()
    if word not in ("true", "false"):
        raise cursor.error("an attribute value", position=cursor.position - len(word))
    return word == "true"


def _parse_dense_value(cursor: Cursor) -> Attribute:
    constant = parse_dense(cursor)
    type_ = constant.type
    if len(type_.shape) == 1 and not type_.dtype.is_float:
        return tuple(int(value) for value in constant.to_numpy())
    return constant


def _parse_array(cursor: Cursor) -> Attribute:
    cursor.expect("[")
    values: list[Attribute] = []
    while not cursor.accept("]"):
        values.append(parse_value(cursor))
        if not cursor.accept(","):
            cursor.expect("]")
            break
    integers = tuple(value for value in values if isinstance(value, int))
    if len(integers) == len(values):
        return integers
    return ", ".join(map(str, values))


def _parse_type(cursor: Cursor) -> str:
    return str(parse_tensor_type(cursor))


def _parse_symbol(cursor: Cursor) -> str:
    return cursor.require(_SYMBOL, "a symbol").group()


def _parse_unit(cursor: Cursor) -> bool:
    cursor.expect("unit")
    return True


_VALUE_KINDS: tuple[tuple[str, Callable[[Cursor], Attribute]], ...] = (
    ("dense<", _parse_dense_value),
    ("true", _parse_bool),
    ("false", _parse_bool),
    ('"', Cursor.string),
    ("[", _parse_array),
    ("tensor<", _parse_type),
    ("@", _parse_symbol),
    ("#", _parse_symbol),
    ("unit", _parse_unit),
)


def _number(cursor: Cursor, literal: str) -> int | float:
    is_float_type = False
    if cursor.accept(":"):
        is_float_type = cursor.peek("f") or cursor.peek("bf")
        bits = cursor.text[cursor.position + 1 : cursor.position + 3]
        if not skip_scalar_type(cursor):
            raise cursor.error("a number's type")
        if is_float_type and literal.startswith("0x"):
            dtype = DType(f"f{bits}")
            return float(_float_bits([literal], dtype)[0])
    is_hex = "0x" in literal
    if not is_hex and (is_float_type or any(mark in literal for mark in ".eE")):
        return float(literal)
    return int(literal, 16 if is_hex else 10)


def parse_dense(cursor: Cursor) -> Constant:
    """Read `dense<...> : tensor<...>` or `vector<...>` (16-bit floats into float32 containers).

    Raises:
        ProgramError: The elements do not fit the type in number or kind.
    """
    start = cursor.position
    found = cursor.require(_DENSE_BODY, "'dense<...>'")
    cursor.expect(":")
    type_ = parse_constant_type(cursor)
    raw, listed = found.groups()
    try:
        if raw is not None:
            values = _from_hex(raw, type_)
        else:
            values = _from_list(_ELEMENT.findall(listed), type_.dtype)
        return make_constant(type_, values)
    except (ValueError, OverflowError) as error:
        raise cursor.problem(f"the elements do not fit {type_}: {error}", position=start) from None


def make_constant(type_: TensorType, values: NDArray[np.generic]) -> Constant:
    """Build a constant from one value or all of them, in row-major order.

    Raises:
        ValueError: There is another number of values.
    """
    if values.size not in (1, type_.num_elements):
        raise ValueError(f"{values.size} elements")
    data = values.astype(type_.dtype.container, copy=False).tobytes()
    if type_.num_elements == 0:
        data = b""
    return Constant(type_, data)


def _from_hex(raw: str, type_: TensorType) -> NDArray[np.generic]:
    data = bytes.fromhex(raw)
    if type_.dtype is DType.I1:
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")
        is_splat = len(data) == 1 and raw.lower() in ("ff", "00", "01")
        return bits[: 1 if is_splat else type_.num_elements].astype(np.bool_)
    if type_.dtype is DType.BF16:
        wide = np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16
        return wide.view(np.float32)
    return np.frombuffer(data, dtype=_STORAGE.get(type_.dtype, type_.dtype.container))


def _from_list(literals: list[str], dtype: DType) -> NDArray[np.generic]:
    if dtype is DType.I1:
        wrong = set(literals) - {"true", "false"}
        if wrong:
            raise ValueError(f"{min(wrong)!r} is neither true nor false")
        return np.array([literal == "true" for literal in literals], dtype=np.bool_)
    if not dtype.is_float:
        values = [int(literal, 0) for literal in literals]
        return np.array(values, dtype=dtype.container)
    if any("0x" in literal for literal in literals):
        return np.array([_one_float(literal, dtype) for literal in literals])
    return _round_to(np.array([float(literal) for literal in literals]), dtype)


def _one_float(literal: str, dtype: DType) -> float:
    if literal.startswith("0x"):
        return float(_float_bits([literal], dtype)[0])
    return float(_round_to(np.array([float(literal)]), dtype)[0])


def _round_to(values: NDArray[np.float64], dtype: DType) -> NDArray[np.generic]:
    """Undo the decimal rounding of the text: the nearest number of the format was meant."""
    if dtype is DType.BF16:
        bits = values.astype(np.float32).view(np.uint32)
        nearest = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
        rounded = (nearest & np.uint32(0xFFFF0000)).view(np.float32)
        return np.where(np.isnan(values), np.float32(np.nan), rounded)
    with np.errstate(over="ignore"):
        return values.astype(_STORAGE.get(dtype, np.dtype(np.float32)))


def _float_bits(literals: list[str], dtype: DType) -> NDArray[np.generic]:
    patterns = [int(literal, 16) for literal in literals]
    if dtype is DType.BF16:
        return (np.array(patterns, dtype=np.uint32) << 16).view(np.float32)
    storage = _STORAGE[dtype]
    return np.array(patterns, dtype=np.dtype(f"<u{storage.itemsize}")).view(storage)
