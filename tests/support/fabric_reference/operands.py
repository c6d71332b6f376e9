"""Operands of DSD operations: descriptors of 64 bits, and how an operation walks over them."""

from dataclasses import dataclass
from enum import Enum, auto

from appliance.fabric.bytecode import DsdKind
from tests.support.fabric_reference.arithmetic import as_signed

ADDRESS = 0xFFFF
ENDLESS = 0x7FFF


class Kind(Enum):
    """What an operand is."""

    NONE = auto()
    SCALAR = auto()
    PLACE = auto()
    MEMORY = auto()
    SHAPED = auto()
    CIRCULAR = auto()
    FABRIC_IN = auto()
    FABRIC_OUT = auto()
    FIFO = auto()


_KINDS = {
    DsdKind.NONE: Kind.NONE,
    DsdKind.MEMORY: Kind.MEMORY,
    DsdKind.SHAPED: Kind.SHAPED,
    DsdKind.CIRCULAR: Kind.CIRCULAR,
    DsdKind.FABRIC_IN: Kind.FABRIC_IN,
    DsdKind.FABRIC_OUT: Kind.FABRIC_OUT,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """Extents and strides in bytes, innermost first; of a circular buffer, its ends too."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    base: int
    wrap: int


@dataclass
class Cursor:
    """An operand while an operation walks over it.

    Attributes:
        kind: What it is.
        dsr: File and number of the DSR that it comes from.
        address: Byte address of the next element.
        stride: Bytes to the element after it.
        length: Elements in all; None for an endless one.
        element_bytes: Width that the strides were made for.
        value: Of a scalar.
        queue: Of a fabric operand, or the number of a FIFO.
        color: Of what is sent on WSE-2.
        follows_index: Whether a wavelet's index is added to the address, or sent.
        is_control: Whether control wavelets are sent.
        advances: Whether the sender's switch advances behind the last wavelet.
        transforms: Whether control wavelets are kept as data, and sent again from it.
        stops_at_control: Whether a control wavelet ends the operation instead of being taken.
        control: What that wavelet then activates or unblocks (action, kind, id).
        only_its_color: Whether it leaves what its queue carries of other colors (WSE-2).
        clears: Sources whose elements are cleared once they have been sent.
    """

    kind: Kind = Kind.NONE
    dsr: tuple[int, int] | None = None
    address: int = 0
    stride: int = 0
    length: int | None = 0
    element_bytes: int = 2
    value: int = 0
    queue: int = 0
    color: int = 0
    shape: Shape | None = None
    follows_index: bool = False
    is_control: bool = False
    advances: bool = False
    transforms: bool = False
    stops_at_control: bool = False
    control: tuple[int, int, int] = (0, 0, 0)
    only_its_color: bool = False
    clears: tuple[int, ...] = ()
    _counts: tuple[int, ...] = ()

    @property
    def is_fabric(self) -> bool:
        """Whether it lies in a queue."""
        return self.kind in (Kind.FABRIC_IN, Kind.FABRIC_OUT)

    @property
    def has_length(self) -> bool:
        """Whether it can say how long an operation is; a FIFO whose length was set can."""
        if self.kind is Kind.FIFO:
            return self.length != 0
        return self.kind not in (Kind.NONE, Kind.SCALAR, Kind.PLACE)

    def in_width(self, stride: int, width: int) -> int:
        """Return a stride as an operation of another width takes it: elements count."""
        return stride if width == self.element_bytes else int(stride / self.element_bytes) * width

    def row(self) -> tuple[int, int | None]:
        """Return stride and elements of a row: the innermost dimension with more than one element.

        Elements are None where there is no shape.
        """
        if self.kind is not Kind.SHAPED or self.shape is None:
            return self.stride, None
        pairs = list(zip(self.shape.strides, self.shape.extents, strict=True))
        return next((pair for pair in pairs if pair[1] > 1), pairs[-1])

    def place(self, index: int) -> int:
        """Return the address of the next element."""
        return (self.address + 2 * index) & ADDRESS if self.follows_index else self.address

    def step(self, width: int) -> None:
        """Go to the next element of a memory operand."""
        if self.kind is Kind.MEMORY:
            self.address = (self.address + self.in_width(self.stride, width)) & ADDRESS
        elif self.kind is Kind.CIRCULAR and self.shape:
            self.address += self.shape.strides[0]
            if self.address >= self.shape.base + self.shape.wrap:
                self.address -= self.shape.wrap
        elif self.kind is Kind.SHAPED and self.shape:
            self._step_shape(self.shape, width)

    def _step_shape(self, shape: Shape, width: int) -> None:
        counts = list(self._counts or (0,) * len(shape.extents))
        for dimension, extent in enumerate(shape.extents):
            counts[dimension] += 1
            if counts[dimension] < extent:
                self.address += self.in_width(shape.strides[dimension], width)
                break
            counts[dimension] = 0
        self._counts = tuple(counts)
        self.address &= ADDRESS


def read_descriptor(dsd: int, shapes: list[Shape]) -> Cursor:
    """Return the operand that 64 bits describe."""
    kind = _KINDS[DsdKind(dsd >> 60)]
    extent = dsd >> 16 & 0xFFFF
    cursor = Cursor(kind, length=None if extent == ENDLESS else extent)
    if cursor.is_fabric:
        cursor.queue, cursor.color = dsd & 15, dsd >> 5 & 31
        cursor.is_control, cursor.follows_index = bool(dsd >> 32 & 1), bool(dsd >> 33 & 1)
        cursor.advances = bool(dsd >> 34 & 1)
        cursor.transforms = bool(dsd >> 37 & 1)
        cursor.clears = tuple(source for source in (0, 1) if dsd >> (35 + source) & 1)
        return cursor
    cursor.address, cursor.stride = dsd & ADDRESS, as_signed(dsd >> 32, 16)
    cursor.element_bytes = 2 << (dsd >> 48 & 3)
    cursor.follows_index = bool(dsd >> 50 & 1)
    if kind in (Kind.SHAPED, Kind.CIRCULAR):
        cursor.shape = shapes[extent]
        cursor.length = 1
        for size in cursor.shape.extents:
            cursor.length *= size
    return cursor
