"""What instructions read and write, and the same instructions with other operands."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from appliance.csl.program import (
    Binary,
    Block,
    Constant,
    Convert,
    DsdMake,
    DsdUpdate,
    Function,
    Instruction,
    Move,
    Place,
    Register,
    Scalar,
    Terminator,
    Unary,
)
from appliance.csl.program.operands import Operand
from appliance.csl.program.operations import MapInput, OnControl, OperationSettings, Target

Item = TypeVar("Item")
PURE = (Move, Unary, Binary, Convert, DsdUpdate)
"""Instructions that only compute a register from others."""
_NAMES: dict[type, tuple[str, ...]] = {}
_NESTED = (OperationSettings, Target, OnControl, Place, MapInput)


def _names(item: object) -> tuple[str, ...]:
    """Return the fields that an instruction may read, found once for each type."""
    kind = type(item)
    if kind not in _NAMES:
        names = (each.name for each in fields(kind))  # type: ignore[arg-type]  # a dataclass
        _NAMES[kind] = tuple(name for name in names if name not in ("dest", "position"))
    return _NAMES[kind]


def reads(item: object) -> Iterator[int]:
    """Yield the registers that an instruction or terminator reads, as often as it names them."""
    for name in _names(item):
        yield from _reads_of(getattr(item, name))


def _reads_of(value: object) -> Iterator[int]:
    if isinstance(value, Register):
        yield value.index
    elif isinstance(value, tuple):
        for part in value:
            yield from _reads_of(part)
    elif isinstance(value, _NESTED):
        yield from reads(value)


def written(item: object) -> int | None:
    """Return the register that an instruction writes, None if it writes none."""
    dest = getattr(item, "dest", None)
    return dest.index if isinstance(dest, Register) else None


def with_operands(item: Item, new: Mapping[int, Operand]) -> Item:
    """Return an instruction or terminator that reads other operands in place of registers.

    What a DSD is made from stays: a known template has another width of elements than a register.
    """
    return item if isinstance(item, DsdMake) else renamed(item, new)


def with_dest(item: Instruction, dest: Register) -> Instruction:
    """Return an instruction that writes another register."""
    return replace(item, dest=dest)  # type: ignore[arg-type]  # not all have one


def renamed(item: Item, new: Mapping[int, Operand]) -> Item:
    """Return an instruction or terminator with other operands in place of registers."""
    changes: dict[str, Any] = {}
    for name in _names(item):
        old = getattr(item, name)
        changed = _changed(old, new)
        if changed is not old:
            changes[name] = changed
    return replace(item, **changes) if changes else item  # type: ignore[type-var]


def _changed(value: object, new: Mapping[int, Operand]) -> object:
    if isinstance(value, Register):
        return new.get(value.index, value)
    if isinstance(value, _NESTED):
        return renamed(value, new)
    if isinstance(value, tuple) and value and type(value) is tuple:
        parts = tuple(_changed(part, new) for part in value)
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
    return value


def reads_of(function: Function) -> Counter[int]:
    """Count how often each register is read."""
    counts: Counter[int] = Counter()
    for block in function.blocks:
        for instruction in block.instructions:
            counts.update(reads(instruction))
        counts.update(reads(block.terminator))
    return counts


def writes_of(blocks: Iterable[Block]) -> Counter[int]:
    """Count how often each register is written."""
    found = (written(each) for block in blocks for each in block.instructions)
    return Counter(register for register in found if register is not None)


def single_writes(function: Function) -> frozenset[int]:
    """Return the registers that one instruction writes and that are no parameters."""
    counts = writes_of(function.blocks)
    return frozenset(
        register
        for register, count in counts.items()
        if count == 1 and register >= function.num_parameters
    )


def cannot_fail(item: Instruction) -> bool:
    """Say whether a pure instruction never stops the program: no division by what may be zero."""
    if not isinstance(item, Binary) or item.op not in ("div", "rem") or item.type.is_float:
        return True
    return isinstance(item.b, Constant) and item.b.value != 0


def successors(end: Terminator) -> tuple[int, ...]:
    """Return the blocks that a terminator can go to."""
    found = [getattr(end, name) for name in ("block", "then", "otherwise") if hasattr(end, name)]
    return (*found, *(block for _, block in getattr(end, "cases", ())))


def is_integer(kind: object) -> bool:
    """Say whether a type is an integer."""
    return isinstance(kind, Scalar) and kind.kind in ("int", "uint")
