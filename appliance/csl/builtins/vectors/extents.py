"""How far DSDs go, where that is known: within their arrays, and all operands equally far."""

from math import prod

from appliance.csl.program.operands import (
    ENDLESS,
    FabricInDescriptor,
    FabricOutDescriptor,
    MemoryDescriptor,
)
from appliance.csl.program.operations import uneven_lengths
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.results.tile import TileWorld
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.values import Const, Value
from appliance.csl.semantics.values.variables import GlobalVariable
from appliance.csl.syntax import tree


def check_extent(value: Value, op_bytes: int, node: tree.Node, frame: Frame) -> None:
    """Refuse an operation that would go beyond the array that its DSD was made for.

    Args:
        value: The DSD; one that is computed at run time is checked there.
        op_bytes: Bytes of the operation's elements, which its strides count.
        node: The operand.
        frame: The frame there.
    """
    if not isinstance(value, Const) or not isinstance(value.value, MemoryDescriptor):
        return
    descriptor: MemoryDescriptor = value.value
    if descriptor.wavelet_index_offset or not all(descriptor.extents):
        return
    variable = _variable_at(frame, descriptor.base)
    if variable is None or variable.address is None:
        return
    start = descriptor.base + descriptor.offset * descriptor.element_bytes - variable.address
    ends = [
        op_bytes * stride * (extent - 1)
        for stride, extent in zip(descriptor.strides, descriptor.extents, strict=True)
    ]
    low, high = start + sum(min(end, 0) for end in ends), start + sum(max(end, 0) for end in ends)
    size = t.size_of(variable.type)
    if low < 0 or high + op_bytes > size:
        text = f"this DSD walks over bytes {low} to {high + op_bytes - 1} of '{variable.name}'"
        frame.fail(node, f"{text}, which has {size}; '{variable.type}' is too short")


def warn_of_lengths(values: list[Value], node: tree.BuiltinCall, frame: Frame) -> None:
    """Warn of an operation that goes beyond an operand's length, or leaves a part of a source.

    The first source that has a length decides, or else the destination, which may be longer. What
    a fabric destination says does not count, and scalars, pointers and FIFOs have no length.

    Args:
        values: The destination, then the sources.
        node: The operation.
        frame: The frame there.
    """
    decides = next((at for at in (1, 2, 0) if at < len(values) and _has_length(values[at])), 0)
    taken = _known_length(values[decides])
    for at in (0, 2):
        length = _known_length(values[at]) if at < len(values) else None
        if taken is None or length is None or values[at].type.name == "fabout_dsd":
            continue
        if length < taken or (at and length > taken):
            frame.warn(node.arguments[at], f"'@{node.name}': {uneven_lengths(taken, at, length)}")


def _has_length(value: Value) -> bool:
    return isinstance(value.type, t.DsdType | t.DsrType)


def _known_length(value: Value) -> int | None:
    """The elements of an operand; None where they are not known, or have no end."""
    if not isinstance(value, Const):
        return None
    match value.value:
        case MemoryDescriptor(extents=extents):
            length = prod(extents)
        case FabricInDescriptor(extent=length) | FabricOutDescriptor(extent=length):
            pass
        case _:
            return None
    return None if length == ENDLESS else length


def _variable_at(frame: Frame, address: int) -> GlobalVariable | None:
    world = frame.world
    assert isinstance(world, TileWorld)
    for variable in world.variables:
        begin = variable.address or 0
        if begin <= address < begin + t.size_of(variable.type):
            return variable
    return None
