"""What instructions take: registers, constants, addresses, DSDs, DSRs, FIFOs."""

from dataclasses import dataclass
from enum import StrEnum

from appliance.csl.program.types import Scalar

ENDLESS = 0x7FFF
"""The length of a DSD of one dimension that has no end."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register of the running function; its type is `Function.registers[index]`.

    Registers are variables: one may be written several times, and each call has its own.
    """

    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A number known when the program was compiled.

    A float constant is already rounded to its type; an infinity or NaN is written as such.
    """

    type: Scalar
    value: int | float | bool


@dataclass(frozen=True, slots=True)
class Address:
    """The byte address of (or inside) a variable, a `POINTER` constant."""

    address: int
    symbol: str
    """The variable's name, for traces and messages."""


@dataclass(frozen=True, slots=True)
class FunctionAddress:
    """A pointer to a function; as a number it is `function + 1`, so that 0 points nowhere."""

    function: int
    """Index in `CodeClass.functions`."""


@dataclass(frozen=True, slots=True)
class MemoryDescriptor:
    """A `mem1d_dsd` (one extent) or `mem4d_dsd` (two to four), strides as the source has them.

    The walk begins at `base + element_bytes * offset`; the last index runs fastest. Strides
    count elements of the operation: a 32-bit operation steps through an array of 16-bit
    elements pair by pair, whatever `element_bytes` says.
    """

    base: int
    element_bytes: int
    offset: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    wavelet_index_offset: bool = False
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class CircularDescriptor:
    """A `circbuf_dsd`: `extent` elements from `start` on, wrapping after `wraparound`."""

    base: int
    element_bytes: int
    start: int
    extent: int
    wraparound: int
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class FabricInDescriptor:
    """A `fabin_dsd`: `extent` wavelets from an input queue.

    `queue` is None only for WSE-2 programs of the old dialect that name just the color.
    """

    queue: int | None
    color: int | None
    extent: int
    priority: str = "default"
    simd_mode: str = "default"
    control_transform: bool = False


@dataclass(frozen=True, slots=True)
class FabricOutDescriptor:
    """A `fabout_dsd`: `extent` wavelets into an output queue.

    WSE-2: sent on `color`. WSE-3: `color` is None, the color is the queue's.
    """

    queue: int | None
    color: int | None
    extent: int
    control: bool = False
    wavelet_index_offset: bool = False
    advance_switch: bool = False
    zero_first_source: bool = False
    zero_second_source: bool = False
    priority: str = "default"
    simd_mode: str = "default"
    control_transform: bool = False


Descriptor = MemoryDescriptor | CircularDescriptor | FabricInDescriptor | FabricOutDescriptor


@dataclass(frozen=True, slots=True)
class DescriptorConstant:
    """A DSD known when the program was compiled."""

    descriptor: Descriptor


Operand = Register | Constant | Address | FunctionAddress | DescriptorConstant
"""A value of an instruction; a `DescriptorConstant` stands where a DSD register may."""


class DsrKind(StrEnum):
    """The register files of DSRs."""

    DEST = "dsr_dest"
    SRC0 = "dsr_src0"
    SRC1 = "dsr_src1"
    EXTENDED = "xdsr"
    STRIDE = "sr"


@dataclass(frozen=True, slots=True)
class Dsr:
    """A data structure register, loaded by `LoadDsr` or at start (`InitialDsrLoad`)."""

    kind: DsrKind
    number: int


@dataclass(frozen=True, slots=True)
class FifoReference:
    """A FIFO as an operand of a DSD operation; index in `CodeClass.fifos`."""

    fifo: int


@dataclass(frozen=True, slots=True)
class Place:
    """A pointer to a scalar as an operand of a DSD operation or of `@map`.

    As a destination it has stride 0 (the last value stays); the two-source float operations
    accumulate into it.
    """

    address: Operand


DsdOperand = Register | DescriptorConstant | Dsr | FifoReference | Place | Constant | Address
"""A register is a DSD or a scalar by its type; a scalar or address source repeats."""
