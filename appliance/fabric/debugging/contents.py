"""What variables of a PE hold, for people."""

import math
import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import UserError
from appliance.csl.program import Field, Scalar, Variable
from appliance.fabric.floats import decode_float

_EXPRESSION = re.compile(
    r"([A-Za-z_$][\w.$]*)\s*(?:\[([^\]]*)\])?((?:\.[A-Za-z_]\w*(?:\[\d+\])?)*)"
)
_MOST_SHOWN = 64

Read = Callable[[int, int], bytes]
"""Bytes of a PE's memory from an address on."""


def parse_expression(text: str) -> tuple[str, tuple[slice | int, ...], str]:
    """Return a symbol's name, the elements that are meant, and their field.

    Without an index a field is part of the name: what is a module's variable, the program knows.

    Raises:
        UserError: It is neither `name`, `name[i]`, `name[i, j]`, `name[from:to]` nor one of these
            with a field, as in `name[i].a`.
    """
    found = _EXPRESSION.fullmatch(text.strip())
    if found is None:
        raise UserError(f"{text!r} is no symbol, as in y, y[3], y[0:8], a[1, 2] or s[1].b.")
    try:
        parts = [part.strip() for part in found[2].split(",")] if found[2] is not None else []
        return found[1], tuple(_index(part) for part in parts), found[3]
    except ValueError:
        raise UserError(f"{text!r} has an index that is no number.") from None


def _index(part: str) -> slice | int:
    first, colon, last = part.partition(":")
    if not colon:
        return int(part)
    return slice(int(first) if first.strip() else None, int(last) if last.strip() else None)


def contents(
    variable: Variable, where: tuple[slice | int, ...], read: Read, half: str, field: str = ""
) -> str:
    """Return what a variable holds, or some elements of it.

    Args:
        where: Elements; empty for all.
        read: Reads the PE's memory.
        half: The program's 16-bit float format.
        field: A field of structs, as in `.a.b`; '' for all.

    Raises:
        UserError: It has no such element or field.
    """
    raw = read(variable.address, variable.num_bytes)
    shape = "".join(f"[{size}]" for size in variable.shape) if not where else ""
    if variable.fields or field:
        found = _structs(variable, where, raw, half, field)
        return shape + " ".join(found[:_MOST_SHOWN]) + _rest(len(found))
    values, kind = _values(variable, raw, half)
    flat = np.ravel(_chosen(variable, values, where))
    shown = " ".join(_text(value, kind) for value in flat[:_MOST_SHOWN])
    return f"{shape}{kind} {shown}{_rest(flat.size)}" if flat.size else f"{shape}{kind} (nothing)"


def _rest(count: int) -> str:
    return f" ... ({count - _MOST_SHOWN} more)" if count > _MOST_SHOWN else ""


def _chosen(
    variable: Variable, values: NDArray[np.generic], where: tuple[slice | int, ...]
) -> NDArray[np.generic]:
    try:
        return np.asarray(values[where]) if where else values
    except IndexError:
        raise UserError(
            f"{variable.name!r} has the shape {list(values.shape)}; there is no element "
            f"{', '.join(map(str, where))}."
        ) from None


def _structs(
    variable: Variable, where: tuple[slice | int, ...], raw: bytes, half: str, field: str
) -> list[str]:
    """The elements as their fields, or a field of each."""
    chosen = [each for each in variable.fields if _is_of(each.name, field)]
    if not chosen:
        names = ", ".join(each.name for each in variable.fields) or "none"
        raise UserError(f"{variable.name!r} has no field {field!r}; it has {names}.")
    count = math.prod(variable.shape)
    size = len(raw) // count
    numbers = _chosen(variable, np.arange(count).reshape(variable.shape), where)
    found = list[str]()
    for at in np.ravel(numbers).tolist():
        element = raw[at * size : (at + 1) * size]
        texts = [f"{each.name} = {_field(each, element, half)}" for each in chosen]
        is_one = len(chosen) == 1 and chosen[0].name == field
        text = texts[0].removeprefix(f"{field} = ") if is_one else f"{{ {', '.join(texts)} }}"
        found.append(text)
    return found


def _is_of(name: str, field: str) -> bool:
    return name == field or not field or name.startswith((field + ".", field + "["))


def _field(field: Field, element: bytes, half: str) -> str:
    """A field of an element: its type and numbers."""
    raw = element[field.offset : field.offset + field.num_bytes]
    if not field.shape and field.type.bits < 8 * field.num_bytes:
        bits = int.from_bytes(raw, "little") >> field.shift & ((1 << field.type.bits) - 1)
        raw = _slot(bits, field.type)
    values, kind = _numbers(raw, field.type, field.shape, half)
    shape = "".join(f"[{size}]" for size in field.shape)
    flat = np.ravel(values)
    shown = " ".join(_text(value, kind) for value in flat[:_MOST_SHOWN])
    return f"{shape}{kind} {shown}{_rest(flat.size)}"


def _slot(bits: int, type_: Scalar) -> bytes:
    """The bytes of a number whose bits are these, with its sign."""
    if type_.is_signed and bits >> (type_.bits - 1):
        bits -= 1 << type_.bits
    return (bits & ((1 << 8 * type_.num_bytes) - 1)).to_bytes(type_.num_bytes, "little")


def _values(variable: Variable, raw: bytes, half: str) -> tuple[NDArray[np.generic], str]:
    element = variable.element
    if not isinstance(element, Scalar):
        return np.frombuffer(raw, "<u2"), "words"
    return _numbers(raw, element, variable.shape, half)


def _numbers(
    raw: bytes, element: Scalar, shape: tuple[int, ...], half: str
) -> tuple[NDArray[np.generic], str]:
    """Numbers of a type, and what the type is called."""
    if element.is_float and element.bits == 16:
        patterns = np.frombuffer(raw, "<u2").tolist()
        numbers = np.array([decode_float(each, half) for each in patterns])
        return numbers.reshape(shape), half
    kind = "f" if element.is_float else "i" if element.is_signed else "u"
    return np.frombuffer(raw, f"<{kind}{element.num_bytes}").reshape(shape), str(element)


def _text(value: np.generic, kind: str) -> str:
    if kind == "words":
        return f"{int(value):#06x}"
    if kind == "bool":
        return "true" if value else "false"
    return f"{float(value):.7g}" if isinstance(value, np.floating) else str(int(value))
