"""The initial bytes of variables in a PE's memory."""

import struct

from appliance.csl.program.operands import Descriptor
from appliance.csl.program.types import DescriptorType, Scalar
from appliance.csl.semantics.context.frames import Frame, FunctionValue
from appliance.csl.semantics.values import numbers
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import Const
from appliance.csl.semantics.values.variables import Pointer
from appliance.csl.syntax import tree

_CODES = {
    ("bool", 1): "H", ("int", 16): "h", ("uint", 16): "H", ("int", 32): "i", ("uint", 32): "I",
    ("float", 16): "e", ("float", 32): "f",
}  # fmt: skip
_UNKNOWN_TO_PYTHON = ("cb16", "bf16")


def _code(type_: Type) -> str | None:
    """How Python's `struct` calls a number type; None if it knows none."""
    machine = type_.machine
    if not isinstance(machine, Scalar) or type(type_) not in (t.IntType, t.FloatType):
        return None
    if isinstance(type_, t.FloatType) and type_.format in _UNKNOWN_TO_PYTHON:
        return None
    return _CODES.get((machine.kind, machine.bits))


def _has_nan(type_: Type, values: list[object]) -> bool:
    """Whether `struct` would lose a payload: it converts, which makes what is signaling quiet."""
    return isinstance(type_, t.FloatType) and any(value != value for value in values)  # noqa: PLR0124 - a NaN alone


class Image:
    """Writes one variable's initial value."""

    def __init__(self, type_: Type, frame: Frame, node: tree.Node) -> None:
        self.bytes = bytearray(t.size_of(type_))
        self.descriptors: list[tuple[int, Descriptor]] = []
        self._frame = frame
        self._node = node

    def write(self, type_: Type, value: object, offset: int) -> None:
        """Writes a raw value (see `Const`) of a type at an offset."""
        if isinstance(type_, t.ArrayType):
            assert isinstance(value, list)
            self._array(type_, value, offset)
        elif isinstance(type_, t.StructType):
            assert isinstance(value, tuple)
            offsets, _ = t.struct_offsets(type_)
            for at, field, item in zip(offsets, type_.field_types, value, strict=True):
                self.write(field, item.value, offset + at)
        elif isinstance(type_.machine, DescriptorType):
            self.descriptors.append((offset, value))  # type: ignore[arg-type] # a descriptor, by its type
        else:
            self._scalar(type_, value, offset)

    def _array(self, type_: t.ArrayType, value: list[object], offset: int) -> None:
        code = _code(type_.element)
        if code is not None and not _has_nan(type_.element, value):
            struct.pack_into(f"<{len(value)}{code}", self.bytes, offset, *value)
            return
        stride = t.stride_of(type_.element)
        for at, item in enumerate(value):
            self.write(type_.element, item, offset + at * stride)

    def _scalar(self, type_: Type, value: object, offset: int) -> None:
        machine = type_.machine
        assert isinstance(machine, Scalar)
        if isinstance(value, Pointer):
            value = value.address.address
        elif isinstance(value, FunctionValue):
            value = self._frame.world.function_index(value, self._frame, self._node) + 1
        code = _code(type_)
        if code is not None and not _has_nan(type_, [value]):
            struct.pack_into(f"<{code}", self.bytes, offset, value)
            return
        # An integer fills its slot with its sign: what reads the slot reads a value of the type.
        bits = int(value) if isinstance(value, int) else numbers.to_bits(value, type_)
        size = machine.num_bytes
        self.bytes[offset : offset + size] = (bits & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def initial_image(
    type_: Type, value: Const, frame: Frame, node: tree.Node
) -> tuple[bytes, tuple[tuple[int, Descriptor], ...]]:
    """The bytes (without zeros at the end) and DSDs of an initial value."""
    image = Image(type_, frame, node)
    image.write(type_, value.value, 0)
    return bytes(image.bytes.rstrip(b"\0")), tuple(image.descriptors)
