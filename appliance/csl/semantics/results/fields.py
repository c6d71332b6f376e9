"""What a struct, a union or a packed value is made of, for debuggers."""

from collections.abc import Iterator
from itertools import islice

from appliance.csl.program.code import Field
from appliance.csl.program.types import Scalar
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type

MOST_FIELDS = 64
"""Of one element: the first ones."""


def fields_of(type_: Type) -> tuple[Field, ...]:
    """Return the numbers, and arrays of them, in a value of a type; none if it is one itself."""
    if not isinstance(type_, t.StructType | t.PackedType):
        return ()
    return tuple(islice(_fields(type_, "", 0), MOST_FIELDS))


def _fields(type_: Type, name: str, offset: int) -> Iterator[Field]:
    if isinstance(type_, t.StructType):
        offsets, _ = t.struct_offsets(type_)
        names = type_.field_names or [str(at) for at in range(len(offsets))]
        for inner, field, at in zip(names, type_.field_types, offsets, strict=True):
            yield from _fields(field, f"{name}.{inner}", offset + at)
    elif isinstance(type_, t.PackedType):
        yield from _bits(type_, name, offset, 0, t.size_of(type_))
    elif isinstance(type_, t.ArrayType):
        yield from _elements(type_, name, offset)
    elif isinstance(type_.machine, Scalar):
        yield Field(name, offset, t.size_of(type_), 0, type_.machine, ())


def _elements(type_: t.ArrayType, name: str, offset: int) -> Iterator[Field]:
    """One field if the elements are numbers, else those of each element."""
    element, stride = type_.element, t.stride_of(type_.element)
    is_number = isinstance(element.machine, Scalar) and not isinstance(element, t.PackedType)
    if is_number and isinstance(element.machine, Scalar):
        yield Field(name, offset, type_.count * stride, 0, element.machine, type_.dimensions)
        return
    for at in range(type_.count):
        yield from _fields(element, f"{name}[{at}]", offset + at * stride)


def _bits(
    type_: t.PackedType, name: str, offset: int, shift: int, num_bytes: int
) -> Iterator[Field]:
    """The fields of a packed value that begins at a bit of so many bytes."""
    for inner, field, at in zip(type_.field_names, type_.field_types, type_.shifts, strict=True):
        if isinstance(field, t.PackedType):
            yield from _bits(field, f"{name}.{inner}", offset, shift + at, num_bytes)
        elif isinstance(field.machine, Scalar):
            machine = field.machine
            yield Field(f"{name}.{inner}", offset, num_bytes, shift + at, machine, ())
