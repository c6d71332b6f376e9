"""Scalar instructions and block ends.

A block's instructions run in order; its terminator names the next block of the function.
An instruction of `operations` may take time or wait for wavelets: then the task stops there
and goes on later, so whatever executes the program must be able to leave and re-enter a
function at `DsdOperation`, `Map`, and at a `Call` of a function that contains one.
"""

from dataclasses import dataclass

from appliance.csl.program.operands import Operand, Register
from appliance.csl.program.operations import Operation
from appliance.csl.program.types import MachineType, Position, Scalar


@dataclass(frozen=True, slots=True)
class Move:
    """`dest = source`; also between registers of one descriptor type."""

    dest: Register
    source: Operand
    position: Position


@dataclass(frozen=True, slots=True)
class Unary:
    """`dest = op a` with `neg`, `not` (bitwise; logical on `bool`)."""

    dest: Register
    op: str
    type: Scalar
    a: Operand
    position: Position


@dataclass(frozen=True, slots=True)
class Binary:
    """`dest = a op b`, both of `type` (the count of a shift is any unsigned type).

    Arithmetic: `add sub mul div rem and or xor shl shr`; result of `type`. Integers wrap;
    `div` truncates toward zero and `rem` follows it; `shr` is arithmetic on signed types;
    a shift by the width or more gives 0 (or the sign); division of an integer by zero is an
    error of the program. Floats round to nearest even at every operation.
    Comparisons: `eq ne lt le gt ge`; result `bool`; with NaN only `ne` is true.
    """

    dest: Register
    op: str
    type: Scalar
    a: Operand
    b: Operand
    position: Position


@dataclass(frozen=True, slots=True)
class Convert:
    """`@as` between scalars, or `@bitcast` where `bitwise` (equal widths).

    Integers wrap, float to integer truncates (saturates outside the range, NaN gives 0),
    anything to `bool` is `!= 0`.
    """

    dest: Register
    source: Operand
    from_type: Scalar
    to_type: Scalar
    bitwise: bool
    position: Position


@dataclass(frozen=True, slots=True)
class Load:
    """`dest = *(address + offset)`; the type is the register's, a descriptor too."""

    dest: Register
    address: Operand
    offset: int
    position: Position


@dataclass(frozen=True, slots=True)
class Store:
    """`*(address + offset) = source` of `type`."""

    address: Operand
    offset: int
    source: Operand
    type: MachineType
    position: Position


@dataclass(frozen=True, slots=True)
class Copy:
    """Copies `num_bytes` (even) from one address to another; the ranges do not overlap."""

    to: Operand
    source: Operand
    num_bytes: int
    position: Position


@dataclass(frozen=True, slots=True)
class CheckIndex:
    """An index of `type` must be from 0 on and below `count`; it takes no time and no memory.

    A simulator checks it, or not if it is to be fast; the machine does not.
    """

    index: Operand
    type: Scalar
    count: int
    array: str
    """As the source names it."""
    position: Position


@dataclass(frozen=True, slots=True)
class Call:
    """Calls `CodeClass.functions[function]`; `dest` is None for a function without result."""

    dest: Register | None
    function: int
    arguments: tuple[Operand, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class CallIndirect:
    """Calls through a function pointer; the signature is that of the pointer's type."""

    dest: Register | None
    pointer: Operand
    arguments: tuple[Operand, ...]
    argument_types: tuple[MachineType, ...]
    result_type: MachineType | None
    position: Position


Instruction = (
    Move
    | Unary
    | Binary
    | Convert
    | Load
    | Store
    | Copy
    | CheckIndex
    | Call
    | CallIndirect
    | Operation
)


@dataclass(frozen=True, slots=True)
class Jump:
    """Goes to a block."""

    block: int
    position: Position


@dataclass(frozen=True, slots=True)
class Branch:
    """Goes to `then` if `condition` (a `bool`), else to `otherwise`."""

    condition: Operand
    then: int
    otherwise: int
    position: Position


@dataclass(frozen=True, slots=True)
class Switch:
    """Goes to the block beside the first equal value, else to `otherwise`."""

    value: Operand
    type: Scalar
    cases: tuple[tuple[int, int], ...]
    """Pairs of value and block."""
    otherwise: int
    position: Position


@dataclass(frozen=True, slots=True)
class Return:
    """Leaves the function; `value` is None for a function without result."""

    value: Operand | None
    position: Position


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Cannot be reached: the end of a function with a result, all of whose paths return."""

    position: Position


Terminator = Jump | Branch | Switch | Return | Unreachable


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block."""

    instructions: tuple[Instruction, ...]
    terminator: Terminator
