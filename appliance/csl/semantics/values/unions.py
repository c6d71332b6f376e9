"""Unions known at compile time: every field is another reading of the same bytes."""

from typing import Any

from appliance.csl.semantics.values import numbers
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import StructType, Type
from appliance.csl.semantics.values.values import Const, Inactive


def has_plain_bits(type_: Type) -> bool:
    """Whether a type is made of numbers, so that its bytes are known at compile time."""
    if isinstance(type_, t.ArrayType):
        return has_plain_bits(type_.element)
    if isinstance(type_, StructType):
        return all(has_plain_bits(field) for field in type_.field_types)
    return isinstance(
        type_, t.IntType | t.FloatType | t.EnumType | t.HandleType | t.PackedType
    ) or (type_ is t.BOOL)


def union_of(type_: StructType, at: int, value: Const) -> Const:
    """A union whose field `at` has a value; bytes that the field leaves free are zero."""
    data = bytearray(t.size_of(type_))
    _write(data, 0, value.type, value.value)
    other = Const if type_.is_extern else Inactive
    fields = [other(field, _read(data, 0, field)) for field in type_.field_types]
    fields[at] = value
    return Const(type_, tuple(fields))


def _write(data: bytearray, offset: int, type_: Type, raw: Any) -> None:  # noqa: ANN401 - see Const
    for part, start, item in _parts(type_, raw):
        if part is type_:
            size = t.size_of(type_)
            bits = numbers.bits_of(item, type_)
            if isinstance(type_, t.IntType):
                bits = item & ((1 << 8 * size) - 1)
            data[offset : offset + size] = bits.to_bytes(size, "little")
        else:
            _write(data, offset + start, part, item)


def _parts(type_: Type, raw: Any) -> list[tuple[Type, int, Any]]:  # noqa: ANN401 - see Const
    """The elements or fields of a value with their offsets; a number is its own part."""
    if isinstance(type_, t.ArrayType):
        stride = t.stride_of(type_.element)
        return [(type_.element, at * stride, item) for at, item in enumerate(raw)]
    if isinstance(type_, StructType):
        offsets, _ = t.struct_offsets(type_)
        fields = zip(type_.field_types, offsets, raw, strict=True)
        return [(field, start, item.value) for field, start, item in fields]
    return [(type_, 0, raw)]


def _read(data: bytearray, offset: int, type_: Type) -> Any:  # noqa: ANN401 - see Const
    if isinstance(type_, t.ArrayType):
        stride = t.stride_of(type_.element)
        return [_read(data, offset + at * stride, type_.element) for at in range(type_.count)]
    if isinstance(type_, StructType):
        offsets, _ = t.struct_offsets(type_)
        pairs = zip(type_.field_types, offsets, strict=True)
        return tuple([Const(field, _read(data, offset + start, field)) for field, start in pairs])
    size = t.size_of(type_)
    bits = int.from_bytes(data[offset : offset + size], "little")
    return numbers.of_bits(bits, type_)
