"""Results that are known, and registers that only pass a value on."""

from dataclasses import replace

from appliance.csl.program import (
    Address,
    Binary,
    Block,
    Branch,
    Constant,
    Convert,
    DescriptorConstant,
    Function,
    Instruction,
    Jump,
    Move,
    Register,
    Scalar,
)
from appliance.csl.program.operands import Operand
from appliance.fabric.optimising.registers import (
    is_integer,
    reads_of,
    single_writes,
    with_dest,
    with_operands,
    written,
)

_KNOWN = (Constant, Address, DescriptorConstant)
_INTEGER = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
_COMPARISONS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_BOOL = Scalar("bool", 1)


def wrapped(value: int, kind: Scalar) -> int:
    """Return an integer as a register of its type holds it."""
    low = value & ((1 << kind.bits) - 1)
    return low - (1 << kind.bits) if kind.is_signed and low >> (kind.bits - 1) else low


def folded(item: Instruction) -> Instruction:
    """Return an instruction whose result is known as the move of that result."""
    result = None
    if isinstance(item, Binary) and is_integer(item.type):
        result = _binary(item)
    elif isinstance(item, Convert):
        result = _converted(item)
    if result is None or not isinstance(item, Binary | Convert):
        return item
    return Move(item.dest, result, item.position)


def _converted(item: Convert) -> Operand | None:
    if not isinstance(item.source, Constant) or not is_integer(item.from_type):
        return None
    if not is_integer(item.to_type):
        return None
    return Constant(item.to_type, wrapped(int(item.source.value), item.to_type))


def _binary(item: Binary) -> Operand | None:
    a, b = item.a, item.b
    if isinstance(a, Constant) and isinstance(b, Constant):
        if item.op in _INTEGER:
            value = _INTEGER[item.op](int(a.value), int(b.value))
            return Constant(item.type, wrapped(value, item.type))
        if item.op in _COMPARISONS:
            return Constant(_BOOL, _COMPARISONS[item.op](int(a.value), int(b.value)))
        return None
    if item.op == "add" and isinstance(a, Address) and isinstance(b, Constant):
        return Address((a.address + int(b.value)) & 0xFFFF, a.symbol)
    return _neutral(item)


def _neutral(item: Binary) -> Operand | None:
    """Return the other operand of `+ 0`, `- 0`, `* 1`."""
    for known, other in ((item.b, item.a), (item.a, item.b)):
        if not isinstance(known, Constant):
            continue
        neutral = {"add": 0, "mul": 1, "or": 0, "xor": 0}.get(item.op)
        if item.op == "sub" and known is item.b:
            neutral = 0
        if neutral is not None and known.value == neutral:
            return other
    return None


def known_everywhere(function: Function) -> Function:
    """Put what a register always holds in its place: it is written once, with a known value."""
    once = single_writes(function)
    known: dict[int, Operand] = {
        item.dest.index: item.source
        for block in function.blocks
        for item in block.instructions
        if isinstance(item, Move) and item.dest.index in once and isinstance(item.source, _KNOWN)
    }
    if not known:
        return function
    return replace(function, blocks=tuple(_with(block, known) for block in function.blocks))


def _with(block: Block, known: dict[int, Operand]) -> Block:
    items = tuple(folded(with_operands(item, known)) for item in block.instructions)
    return Block(items, with_operands(block.terminator, known))


def without_known_branches(function: Function) -> Function:
    """Make branches whose condition is known jumps; blocks that nothing reaches stay empty."""
    blocks = tuple(
        replace(block, terminator=_decided(block.terminator))
        if isinstance(block.terminator, Branch)
        else block
        for block in function.blocks
    )
    return replace(function, blocks=blocks)


def _decided(branch: Branch) -> Branch | Jump:
    if not isinstance(branch.condition, Constant):
        return branch
    return Jump(branch.then if branch.condition.value else branch.otherwise, branch.position)


def without_passing(function: Function) -> Function:
    """Write results straight to the variable to which the next move takes them."""
    counts, once = reads_of(function), single_writes(function)
    passing = frozenset(register for register in once if counts[register] == 1)
    blocks = tuple(
        Block(_straight(function, block.instructions, passing), block.terminator)
        for block in function.blocks
    )
    return replace(function, blocks=blocks)


def _straight(
    function: Function, items: tuple[Instruction, ...], passing: frozenset[int]
) -> tuple[Instruction, ...]:
    result: list[Instruction] = []
    for item in items:
        if isinstance(item, Move) and isinstance(item.source, Register):
            previous = result[-1] if result else None
            source, dest = item.source.index, item.dest.index
            is_alike = function.registers[source] == function.registers[dest]
            if source in passing and is_alike and written(previous) == source:
                result[-1] = with_dest(result[-1], item.dest)
                continue
        result.append(item)
    return tuple(result)
