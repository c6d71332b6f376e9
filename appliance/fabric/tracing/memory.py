"""What variables hold when a trace is made: the first bytes of each, PE by PE.

A header says for each symbol its type, of a struct its fields, and how many of its bytes are
stored; the bytes of a PE are those of its symbols, one after another. All PEs together store a
bounded number: of large programs fewer bytes a symbol, of the largest none.
"""

import base64
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from appliance.csl.program import NO_CODE, CodeClass, Field, Program, Scalar, Variable

MOST_BYTES = 2 << 20
"""Stored of all PEs together."""
_SHOWN = (64, 32, 16, 8, 4)
"""Bytes of a symbol that are stored: the first of these for which all PEs stay below the most."""

# `Any`: parts of a JSON object.
Symbols = list[dict[str, Any]]


def symbols_of(program: Program) -> list[Symbols]:
    """Return for each class its variables by address, with their types and bytes to store."""
    classes = [_sorted(source) for source in program.classes]
    limit = _limit(program, classes)
    return [[_symbol(each, program.fp16_format, limit) for each in source] for source in classes]


def packed_memory(
    program: Program, symbols: Sequence[Symbols], read: Callable[[int, int], bytes]
) -> str:
    """Return the variables of PEs in the form of a trace's header.

    Args:
        symbols: What `symbols_of` says of it.
        read: The memory of a PE, by its number and its class.
    """
    parts = []
    for number, code in enumerate(_codes(program)):
        shown = [each for each in symbols[code] if each["shown"]] if code != NO_CODE else []
        if not shown:
            continue
        memory = read(number, code)
        parts += [memory[each["address"] : each["address"] + each["shown"]] for each in shown]
    return base64.b64encode(zlib.compress(b"".join(parts))).decode()


def _codes(program: Program) -> list[int]:
    codes: list[int] = np.frombuffer(program.grid.code, dtype="<u4").tolist()
    return codes


def _sorted(source: CodeClass) -> list[Variable]:
    return sorted(source.variables, key=lambda variable: variable.address)


def _limit(program: Program, classes: Sequence[Sequence[Variable]]) -> int:
    codes = np.frombuffer(program.grid.code, dtype="<u4")
    counts = np.bincount(codes[codes != NO_CODE], minlength=len(classes)).tolist()
    for limit in _SHOWN:
        sizes = [sum(min(each.num_bytes, limit) for each in source) for source in classes]
        if sum(c * s for c, s in zip(counts, sizes, strict=True)) <= MOST_BYTES:
            return limit
    return 0


def _symbol(variable: Variable, fp16_format: str, limit: int) -> dict[str, Any]:
    element = variable.element
    found = {
        "name": variable.name,
        "address": variable.address,
        "bytes": variable.num_bytes,
        "type": _type(element, fp16_format) if isinstance(element, Scalar) else "",
        "shape": list(variable.shape),
        "shown": min(variable.num_bytes, limit),
    }
    if variable.fields:
        found["fields"] = [_field(each, fp16_format) for each in variable.fields]
    return found


def _field(field: Field, fp16_format: str) -> dict[str, Any]:
    return {
        "name": field.name,
        "offset": field.offset,
        "bytes": field.num_bytes,
        "shift": field.shift,
        "type": _type(field.type, fp16_format),
        "is_array": bool(field.shape),
    }


def _type(element: Scalar, fp16_format: str) -> str:
    if element.is_float:
        return fp16_format if element.bits == 16 else f"f{element.bits}"
    if element.bits == 1:
        return "bool"
    return f"{'i' if element.is_signed else 'u'}{element.bits}"
