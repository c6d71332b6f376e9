"""Accesses to elements of arrays as one instruction: a base, and an index times the width."""

from dataclasses import dataclass, replace

from appliance.csl.program import (
    Binary,
    Block,
    Constant,
    Convert,
    Function,
    Instruction,
    Load,
    Register,
    Scalar,
    Store,
)
from appliance.csl.program.operands import Operand
from appliance.fabric.optimising.registers import reads, written


@dataclass(frozen=True, slots=True)
class LoadElement(Load):
    """`dest = *(address + index * width + offset)`; the width is that of the type."""

    index: Register


@dataclass(frozen=True, slots=True)
class StoreElement(Store):
    """`*(address + index * width + offset) = source`; the width is that of the type."""

    index: Register


def with_elements(function: Function) -> Function:
    """Make one instruction of each access whose address is computed in its block."""
    blocks = tuple(
        Block(tuple(_accesses(function, block)), block.terminator) for block in function.blocks
    )
    return replace(function, blocks=blocks)


def _accesses(function: Function, block: Block) -> list[Instruction]:
    known: dict[int, Instruction] = {}
    readers: dict[int, set[int]] = {}  # By register: what was computed from it.
    result = []
    for item in block.instructions:
        result.append(_access(function, item, known))
        dest = written(item)
        if dest is not None:
            for each in (dest, *readers.pop(dest, ())):
                known.pop(each, None)
            if isinstance(item, Binary | Convert):
                _know(item, dest, known, readers)
    return result


def _know(
    item: Binary | Convert,
    dest: int,
    known: dict[int, Instruction],
    readers: dict[int, set[int]],
) -> None:
    """Note what a register was computed from, unless that is gone with the write."""
    inputs = set(reads(item))
    if dest not in inputs:
        known[dest] = item
        for each in inputs:
            readers.setdefault(each, set()).add(dest)


def _access(function: Function, item: Instruction, known: dict[int, Instruction]) -> Instruction:
    if not isinstance(item, Load | Store):
        return item
    kind = function.registers[item.dest.index] if isinstance(item, Load) else item.type
    if not isinstance(kind, Scalar) or kind.num_bytes > 4:
        return item
    found = _element(item.address, kind.num_bytes, known)
    if found is None:
        return item
    base, index = found
    if isinstance(item, Load):
        return LoadElement(item.dest, base, item.offset, item.position, index)
    return StoreElement(base, item.offset, item.source, item.type, item.position, index)


def _element(
    address: Operand, width: int, known: dict[int, Instruction]
) -> tuple[Operand, Register] | None:
    """Return base and index of an address that is their sum, the index times the width."""
    total = _defined(address, known)
    if not isinstance(total, Binary) or total.op != "add":
        return None
    product = _defined(total.b, known)
    if not isinstance(product, Binary) or product.op != "mul" or product.type.bits != 16:
        return None
    if not isinstance(product.b, Constant) or product.b.value != width:
        return None
    index = _unconverted(product.a, known)
    return (total.a, index) if isinstance(index, Register) else None


def _unconverted(operand: Operand, known: dict[int, Instruction]) -> Operand:
    """Return what a 16-bit index is made from: addresses have no more bits."""
    source = _defined(operand, known)
    if not isinstance(source, Convert) or source.to_type.bits != 16 or source.bitwise:
        return operand
    is_wide = source.from_type.kind in ("int", "uint") and source.from_type.bits >= 16
    return source.source if is_wide else operand


def _defined(operand: Operand, known: dict[int, Instruction]) -> Instruction | None:
    return known.get(operand.index) if isinstance(operand, Register) else None
