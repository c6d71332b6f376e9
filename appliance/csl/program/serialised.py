"""The program as a file: JSON, compressed, checked value by value while it is read.

The reader trusts nothing: every field must have the type that its dataclass declares, an
unknown tag or a wrong number of fields is an error, and no code is executed (there is no
pickle). The encoders and decoders of a class are derived once from its annotations.
"""

import functools
import json
import math
import types
import typing
import zlib
from base64 import b85decode, b85encode
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, cast

from appliance.csl.program import code, instructions, operands, operations, placement
from appliance.csl.program.code import Function
from appliance.csl.program.nans import nan_bits, nan_of_bits
from appliance.csl.program.placement import Program
from appliance.csl.program.types import Position

FORMAT = "csl-program"
VERSION = 2
MAX_DECODED_BYTES = 1 << 31
MAX_BYTES_OF_A_FIELD = 1 << 24
"""More than any field needs: the classes of the largest grid take four million."""

_NAN = "NaN"
"""Tag of what is no number: JSON would lose its payload and its sign."""
_DOUBLE = (11, 52)
"""Bits of exponent and mantissa of a Python float."""

# JSON is untyped: encoders and decoders map between `Any` and the declared types.
_Codec = Callable[[Any], Any]


class ProgramFormatError(ValueError):
    """The bytes are not a program that this version wrote."""


class _Encoder:
    """Encodes values; functions that several classes share (one object) are written once."""

    def __init__(self) -> None:
        self.functions: list[Any] = []
        self._numbers: dict[int, int] = {}

    def value(self, value: Any) -> Any:  # noqa: ANN401 - see _Codec
        if isinstance(value, float) and math.isnan(value):
            return [_NAN, nan_bits(value, *_DOUBLE)]
        if value is None or isinstance(value, bool | int | float) or type(value) is str:
            return value
        if isinstance(value, Position):
            return list(value)
        if isinstance(value, tuple):
            return [self.value(item) for item in value]
        if isinstance(value, Function):
            return self._function(value)
        if isinstance(value, bytes):
            return b85encode(zlib.compress(value, 1)).decode() if value else ""
        if isinstance(value, StrEnum):
            return value.value
        return self._record(value)

    def _record(self, value: Any) -> Any:  # noqa: ANN401 - see _Codec
        names = value.__slots__
        return [type(value).__name__, *[self.value(getattr(value, name)) for name in names]]

    def _function(self, function: Function) -> int:
        number = self._numbers.get(id(function))
        if number is None:
            number = self._numbers[id(function)] = len(self.functions)
            self.functions.append(self._record(function))
        return number


def encode(program: Program) -> bytes:
    """The program as bytes; equal programs give equal bytes."""
    encoder = _Encoder()
    body = encoder.value(program)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "functions": encoder.functions,
        "program": body,
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 1)


def decode(data: bytes) -> Program:
    """Reads what `encode` wrote.

    Raises:
        ProgramFormatError: The bytes are damaged, or of another version.
    """
    document = _document(data)
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        raise ProgramFormatError(
            f"the file holds {document.get('format')!r} version {document.get('version')!r}; "
            f"this simulator reads {FORMAT!r} version {VERSION}. Compile the program again."
        )
    try:
        decoder = _Decoder()
        decoder.functions = [decoder.record(Function)(item) for item in document["functions"]]
        return cast("Program", decoder.record(Program)(document["program"]))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ProgramFormatError(f"the program file is damaged: {error}") from error


def _document(data: bytes) -> dict[str, Any]:
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(data, MAX_DECODED_BYTES)
        if inflate.unconsumed_tail or not inflate.eof:
            raise ProgramFormatError("the program file is cut off or too large")
        document = json.loads(text)
    except (zlib.error, ValueError, RecursionError) as error:
        raise ProgramFormatError(f"the program file is damaged: {error}") from error
    if not isinstance(document, dict):
        raise ProgramFormatError("the program file is damaged: not an object")
    return document


class _Decoder:
    """Builds and keeps a decoder for each annotation."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self._known: dict[Any, _Codec] = {
            int: _checked(int),
            bool: _checked(bool),
            str: _checked(str),
            float: _checked(float),
            types.NoneType: _checked(types.NoneType),
            bytes: _bytes,
            Position: _position,
            Function: self._function,
        }

    def of(self, annotation: Any) -> _Codec:  # noqa: ANN401 - a type, a union or a generic
        known = self._known.get(annotation)
        if known is None:
            known = self._known[annotation] = self._build(annotation)
        return known

    def _function(self, number: Any) -> Function:  # noqa: ANN401 - see _Codec
        if type(number) is not int or not 0 <= number < len(self.functions):
            raise ValueError(f"no function {number!r}")
        return self.functions[number]

    def _build(self, annotation: Any) -> _Codec:  # noqa: ANN401 - see of
        origin = typing.get_origin(annotation)
        if origin is tuple:
            return self._tuple(typing.get_args(annotation))
        if origin in (typing.Union, types.UnionType):
            return self._union(typing.get_args(annotation))
        if isinstance(annotation, type) and issubclass(annotation, StrEnum):
            return annotation
        if is_dataclass(annotation):
            return self.record(annotation)
        raise TypeError(f"no decoder for {annotation!r}")

    def _tuple(self, arguments: tuple[Any, ...]) -> _Codec:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            item = self.of(arguments[0])
            return lambda value: tuple([item(each) for each in _list(value)])
        items = [self.of(argument) for argument in arguments]

        def decode_tuple(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - see _Codec
            return tuple([item(each) for item, each in zip(items, _list(value), strict=True)])

        return decode_tuple

    def _union(self, members: tuple[Any, ...]) -> _Codec:
        records = {
            member.__name__: self.of(member)
            for member in members
            if isinstance(member, type) and is_dataclass(member)
        }
        plain = tuple(member for member in members if member in (int, float, bool, str))
        enums = [m for m in members if isinstance(m, type) and issubclass(m, StrEnum)]
        nothing = types.NoneType in members

        def decode_union(value: Any) -> Any:  # noqa: ANN401 - see _Codec
            if value is None and nothing:
                return None
            if isinstance(value, list) and value and value[0] in records:
                return records[value[0]](value)
            if type(value) in plain:
                return value
            if float in plain and isinstance(value, list):
                return _nan(value)
            for enum in enums:
                return enum(value)
            raise ValueError(f"unexpected {str(value)[:60]!r}")

        return decode_union

    def record(self, cls: Any) -> _Codec:  # noqa: ANN401 - a dataclass
        hints = _hints(cls)
        decoders: list[_Codec] = []

        def decode_record(value: Any) -> Any:  # noqa: ANN401 - see _Codec
            items = _list(value)
            if len(items) != len(decoders) + 1 or items[0] != cls.__name__:
                raise ValueError(f"expected {cls.__name__}, found {str(value)[:60]!r}")
            return cls(*[decoder(item) for decoder, item in zip(decoders, items[1:], strict=True)])

        if cls is not Function:
            self._known[cls] = decode_record
        decoders.extend(self.of(hints[field.name]) for field in fields(cls))
        return decode_record


_NAMES = {
    name: value
    for module in (operands, operations, instructions, code, placement)
    for name, value in vars(module).items()
}


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass and its annotations
    return typing.get_type_hints(cls, _NAMES)


def _checked(expected: type) -> _Codec:
    def check(value: Any) -> Any:  # noqa: ANN401 - see _Codec
        if type(value) is not expected:
            raise ValueError(f"expected {expected.__name__}, found {str(value)[:60]!r}")
        return value

    return check


def _nan(value: list[Any]) -> float:
    tag, bits = value
    if tag != _NAN or type(bits) is not int or not 0 <= bits < 1 << 64:
        raise ValueError(f"unexpected {str(value)[:60]!r}")
    return nan_of_bits(bits, *_DOUBLE)


def _list(value: Any) -> list[Any]:  # noqa: ANN401 - see _Codec
    if type(value) is not list:
        raise ValueError(f"expected a list, found {str(value)[:60]!r}")
    return value


def _bytes(value: Any) -> bytes:  # noqa: ANN401 - see _Codec
    if type(value) is not str:
        raise ValueError("expected bytes")
    if not value:
        return b""
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(b85decode(value), MAX_BYTES_OF_A_FIELD)
    except zlib.error as error:
        raise ValueError(f"bytes are damaged: {error}") from error
    if inflate.unconsumed_tail or not inflate.eof:
        raise ValueError("bytes of a field are cut off or too large")
    return data


def _position(value: Any) -> Position:  # noqa: ANN401 - see _Codec
    file, line, column = _list(value)
    if type(file) is not int or type(line) is not int or type(column) is not int:
        raise ValueError("expected a position")
    return Position(file, line, column)
