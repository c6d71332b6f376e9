"""Types that exist at run time: what a register holds and how many bytes it takes in memory.

Source-level types (structs, enums, colors, task ids, arrays) are gone here. Colors, task ids
and queue ids are `u16`; enums their integer; pointers and function pointers 16-bit addresses;
arrays and structs lie in memory and are reached by address.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Position(NamedTuple):
    """A place in the sources: `Program.files[file]`, line and column from 1 on."""

    file: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number: `bool`, an integer of 1 to 64 bits, `f16` or `f32`.

    An integer register always holds a value of its type: results wrap at `bits`.
    """

    kind: str
    """`bool`, `int`, `uint` or `float`."""
    bits: int

    @property
    def num_bytes(self) -> int:
        """Bytes in memory: whole 16-bit words, so that 8-bit types and `bool` take two."""
        return 2 if self.bits <= 16 else 4 if self.bits <= 32 else 8

    @property
    def alignment(self) -> int:
        """Bytes that an address of this type is a multiple of."""
        return 2 if self.bits <= 16 else 4

    @property
    def is_float(self) -> bool:
        """Whether arithmetic on it rounds to nearest even rather than wraps."""
        return self.kind == "float"

    @property
    def is_signed(self) -> bool:
        """Whether an integer of this type is signed."""
        return self.kind == "int"

    def __str__(self) -> str:
        prefix = {"bool": "bool", "int": "i", "uint": "u", "float": "f"}[self.kind]
        return prefix if self.kind == "bool" else f"{prefix}{self.bits}"


BOOL = Scalar("bool", 1)
I8, I16, I32, I64 = (Scalar("int", bits) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (Scalar("uint", bits) for bits in (8, 16, 32, 64))
F16, F32 = Scalar("float", 16), Scalar("float", 32)
POINTER = U16
"""A byte address in the memory of the processing element; 0 points nowhere."""


class DescriptorType(StrEnum):
    """The type of a DSD held in a register or in memory (see `operands.Descriptor`)."""

    MEM1D = "mem1d_dsd"
    MEM4D = "mem4d_dsd"
    CIRCULAR = "circbuf_dsd"
    FABRIC_IN = "fabin_dsd"
    FABRIC_OUT = "fabout_dsd"

    @property
    def num_bytes(self) -> int:
        """Bytes that a variable of this type takes in memory, whatever the simulator stores."""
        return 24 if self is DescriptorType.MEM4D else 16

    @property
    def alignment(self) -> int:
        """Bytes that the address of such a variable is a multiple of."""
        return 4


MachineType = Scalar | DescriptorType
