"""A DSD as the machine holds it: 64 bits.

bits 63-60  kind (`DsdKind`)
memory      15-0 byte address, 31-16 extent, 47-32 stride in bytes, 49-48 width of an element
(0: 2 bytes, 1: 4, 2: 8), 50 the wavelet's index is added to the address
shaped      15-0 byte address, 31-16 number of a shape (extents and strides of 2 to 4
dimensions, or of a circular buffer), 49-48 and 50 as above
fabric      3-0 queue (15: none), 9-5 color (31: none), 31-16 extent, 12-10 priority,
32 control, 33 index, 34 advance the switch, 35 and 36 zero a source, 37 transform
"""

from dataclasses import dataclass, field

from appliance.csl.program import (
    CircularDescriptor,
    Descriptor,
    FabricInDescriptor,
    FabricOutDescriptor,
    MemoryDescriptor,
)
from appliance.fabric.bytecode import DsdKind

_INDEXED = 1 << 50
_NO_QUEUE = 15
_NO_COLOR = 31
PRIORITIES = {"default": 0, "low": 1, "medium": 2, "high": 3}


def width_code(element_bytes: int) -> int:
    """Return how the machine writes the width of an element of 2, 4 or 8 bytes."""
    return {1: 0, 2: 0, 4: 1, 8: 2}[element_bytes]


@dataclass
class ShapeTable:
    """The shapes of one code class, each once."""

    rows: list[tuple[int, ...]] = field(default_factory=list)

    def number(self, row: tuple[int, ...]) -> int:
        """Return the number of a shape, a record of `bytecode.SHAPE` as a flat tuple."""
        if row not in self.rows:
            self.rows.append(row)
        return self.rows.index(row)


def encode_descriptor(descriptor: Descriptor, shapes: ShapeTable) -> int:
    """Return a DSD as 64 bits; shapes that it needs are added to the table."""
    match descriptor:
        case MemoryDescriptor():
            return _memory(descriptor, shapes)
        case CircularDescriptor():
            return _circular(descriptor, shapes)
        case FabricInDescriptor():
            return _fabric_in(descriptor)
        case FabricOutDescriptor():
            return _fabric_out(descriptor)


def _memory(d: MemoryDescriptor, shapes: ShapeTable) -> int:
    address = (d.base + d.element_bytes * d.offset) & 0xFFFF
    common = (
        address | width_code(d.element_bytes) << 48 | (_INDEXED if d.wavelet_index_offset else 0)
    )
    if len(d.extents) == 1:
        stride = (d.strides[0] * d.element_bytes) & 0xFFFF
        return common | (d.extents[0] & 0xFFFF) << 16 | stride << 32 | DsdKind.MEMORY << 60
    return common | shapes.number(shape_of(d)) << 16 | DsdKind.SHAPED << 60


def shape_of(d: MemoryDescriptor) -> tuple[int, ...]:
    """Return the shape, innermost dimension first.

    The machine adds a dimension's stride whenever the dimensions within it have run out, so each
    stride is less by what those have travelled.
    """
    extents = list(reversed(d.extents))
    plain = [stride * d.element_bytes for stride in reversed(d.strides)]
    strides: list[int] = []
    for dimension, stride in enumerate(plain):
        travelled = sum(
            (extents[inner] - 1) * plain[inner] for inner in range(dimension) if extents[inner]
        )
        strides.append(stride - travelled)
    pad = [0] * (4 - len(extents))
    return (len(extents), *extents, *pad, *strides, *pad, 0, 0, *[0] * 5)


def _circular(d: CircularDescriptor, shapes: ShapeTable) -> int:
    width = d.element_bytes
    row = (1, d.extent, 0, 0, 0, width, 0, 0, 0, d.base, d.wraparound * width, *[0] * 5)
    address = (d.base + d.start * width) & 0xFFFF
    return address | shapes.number(row) << 16 | width_code(width) << 48 | DsdKind.CIRCULAR << 60


def _fabric(queue: int | None, color: int | None, extent: int, priority: str) -> int:
    number = _NO_QUEUE if queue is None else queue
    routed = _NO_COLOR if color is None else color
    return number | routed << 5 | PRIORITIES[priority] << 10 | (extent & 0xFFFF) << 16


def _fabric_in(d: FabricInDescriptor) -> int:
    bits = d.control_transform << 37
    return _fabric(d.queue, d.color, d.extent, d.priority) | bits | DsdKind.FABRIC_IN << 60


def _fabric_out(d: FabricOutDescriptor) -> int:
    flags = (
        d.control,
        d.wavelet_index_offset,
        d.advance_switch,
        d.zero_first_source,
        d.zero_second_source,
        d.control_transform,
    )
    bits = sum(1 << (32 + number) for number, flag in enumerate(flags) if flag)
    return _fabric(d.queue, d.color, d.extent, d.priority) | bits | DsdKind.FABRIC_OUT << 60
