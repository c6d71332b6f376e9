"""What variables of a PE hold, for people."""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import UserError
from appliance.csl.program import Scalar, Variable
from appliance.fabric.floats import decode_float

_EXPRESSION = re.compile(r"([A-Za-z_$][\w.$]*)\s*(?:\[([^\]]*)\])?")
_MOST_SHOWN = 64

Read = Callable[[int, int], bytes]
"""Bytes of a PE's memory from an address on."""


def parse_expression(text: str) -> tuple[str, tuple[slice | int, ...]]:
    """Return a symbol's name and the elements that are meant.

    Raises:
        UserError: It is neither `name`, `name[i]`, `name[i, j]` nor `name[from:to]`.
    """
    found = _EXPRESSION.fullmatch(text.strip())
    if found is None:
        raise UserError(f"{text!r} is no symbol, as in y, y[3], y[0:8] or a[1, 2].")
    try:
        parts = [part.strip() for part in found[2].split(",")] if found[2] is not None else []
        return found[1], tuple(_index(part) for part in parts)
    except ValueError:
        raise UserError(f"{text!r} has an index that is no number.") from None


def _index(part: str) -> slice | int:
    first, colon, last = part.partition(":")
    if not colon:
        return int(part)
    return slice(int(first) if first.strip() else None, int(last) if last.strip() else None)


def contents(variable: Variable, where: tuple[slice | int, ...], read: Read, half: str) -> str:
    """Return what a variable holds, or some elements of it.

    Args:
        where: Elements; empty for all.
        read: Reads the PE's memory.
        half: The program's 16-bit float format.

    Raises:
        UserError: It has no such element.
    """
    raw = read(variable.address, variable.num_bytes)
    values, kind = _values(variable, raw, half)
    if where:
        try:
            values = values[where]
        except IndexError:
            raise UserError(
                f"{variable.name!r} has the shape {list(values.shape)}; there is no element "
                f"{', '.join(map(str, where))}."
            ) from None
    flat = np.ravel(values)
    shown = " ".join(_text(value, kind) for value in flat[:_MOST_SHOWN])
    more = f" ... ({flat.size - _MOST_SHOWN} more)" if flat.size > _MOST_SHOWN else ""
    shape = "".join(f"[{size}]" for size in variable.shape) if not where else ""
    return f"{shape}{kind} {shown}{more}" if flat.size else f"{shape}{kind} (nothing)"


def _values(variable: Variable, raw: bytes, half: str) -> tuple[NDArray[np.generic], str]:
    element = variable.element
    if not isinstance(element, Scalar):
        return np.frombuffer(raw, "<u2"), "words"
    width = element.num_bytes
    if element.is_float and element.bits == 16:
        patterns = np.frombuffer(raw, "<u2").tolist()
        numbers = np.array([decode_float(each, half) for each in patterns])
        return numbers.reshape(variable.shape), half
    kind = "f" if element.is_float else "i" if element.is_signed else "u"
    values = np.frombuffer(raw, f"<{kind}{width}").reshape(variable.shape)
    return values, str(element)


def _text(value: np.generic, kind: str) -> str:
    if kind == "words":
        return f"{int(value):#06x}"
    if kind == "bool":
        return "true" if value else "false"
    return f"{float(value):.7g}" if isinstance(value, np.floating) else str(int(value))
