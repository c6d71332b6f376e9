"""Within a block: what has been computed or loaded before is not computed or loaded again.

A register has a version, one more with every write: what is remembered of it holds for the
version that it was remembered of. What memory holds is forgotten when something may write it: a
store to the same place or through a pointer, and whatever leaves the scalar code. A value that a
pointer of the program reads is not remembered: it may be a register of the router.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from appliance.csl.program import (
    Activate,
    Address,
    Assert,
    Binary,
    Block,
    CheckIndex,
    Constant,
    Convert,
    DescriptorType,
    DsdMake,
    DsdUpdate,
    Function,
    Instruction,
    Load,
    LoadDsr,
    MachineType,
    Move,
    Register,
    SetBlocked,
    Store,
    Unary,
)
from appliance.csl.program.code import MEMORY_BYTES
from appliance.csl.program.operands import Operand
from appliance.fabric.optimising.folding import folded
from appliance.fabric.optimising.registers import PURE, reads, with_operands, written

_KEEPS_MEMORY = (*PURE, Activate, Assert, CheckIndex, DsdMake, Load, LoadDsr, SetBlocked, Store)


def without_repeats(function: Function) -> Function:
    """Compute and load each value once in each block."""
    blocks = tuple(_Block(function).rewritten(block) for block in function.blocks)
    return replace(function, blocks=blocks)


@dataclass(frozen=True, slots=True)
class _Held:
    """A value that an operand has, as long as its register keeps its version."""

    operand: Operand
    version: int


@dataclass
class _Block:
    """What is known at one place of a block."""

    function: Function
    versions: Counter[int] = field(default_factory=Counter)
    copies: dict[tuple[int, int], _Held] = field(default_factory=dict)
    results: dict[Hashable, _Held] = field(default_factory=dict)
    memory: dict[tuple[Hashable, int], tuple[MachineType, _Held]] = field(default_factory=dict)
    arrays: set[Hashable] = field(default_factory=set)
    """Addresses within arrays of the program, which no pointer gave."""

    def rewritten(self, block: Block) -> Block:
        """Return the block without repeats."""
        items = tuple(self._step(item) for item in block.instructions)
        return Block(items, with_operands(block.terminator, self._known(block.terminator)))

    def _known(self, item: object) -> dict[int, Operand]:
        if isinstance(item, DsdMake):  # what it makes follows what kind of operand describes it
            return {}
        known = {}
        for register in set(reads(item)):
            held = self.copies.get((register, self.versions[register]))
            if held is not None and self._holds(held):
                known[register] = held.operand
        return known

    def _holds(self, held: _Held) -> bool:
        operand = held.operand
        return not isinstance(operand, Register) or self.versions[operand.index] == held.version

    def _held(self, operand: Operand) -> _Held:
        version = self.versions[operand.index] if isinstance(operand, Register) else 0
        return _Held(operand, version)

    def _key(self, operand: object) -> Hashable:
        if isinstance(operand, Register):
            return operand.index, self.versions[operand.index]
        if isinstance(operand, Constant) and operand.type.is_float:
            return operand.type, repr(float(operand.value))  # 0.0 == -0.0
        return operand if isinstance(operand, Hashable) else id(operand)

    def _step(self, item: Instruction) -> Instruction:
        item = folded(with_operands(item, self._known(item)))
        if isinstance(item, Move):
            return self._move(item)
        if isinstance(item, PURE):
            return self._computed(item)
        if isinstance(item, Load):
            return self._loaded(item)
        if isinstance(item, Store):
            self._stored(item)
        elif not isinstance(item, _KEEPS_MEMORY):
            self.memory.clear()
        dest = written(item)
        if dest is not None:
            self.versions[dest] += 1
        return item

    def _write(self, dest: Register, value: _Held | None) -> None:
        self.versions[dest.index] += 1
        if value is not None and value.operand != dest:
            self.copies[dest.index, self.versions[dest.index]] = value

    def _move(self, item: Move) -> Move:
        self._write(item.dest, self._held(item.source))
        return item

    def _result_key(self, item: Instruction) -> Hashable:
        match item:
            case Binary(op=op, type=kind, a=a, b=b):
                return op, kind, self._key(a), self._key(b)
            case Unary(op=op, type=kind, a=a):
                return op, kind, self._key(a)
            case Convert(source=source, from_type=before, to_type=after, bitwise=bitwise):
                return "convert", before, after, bitwise, self._key(source)
            case DsdUpdate():
                place = (item.type, item.field, item.element_bytes)
                return "update", *place, self._key(item.source), self._key(item.value)
            case _:
                raise TypeError(f"{item!r} is not pure.")

    def _computed(self, item: Instruction) -> Instruction:
        key = self._result_key(item)
        held = self.results.get(key)
        is_array = self._is_array(item)
        dest = Register(written(item) or 0)
        if held is not None and self._holds(held) and self._is_alike(held, dest):
            self._write(dest, held)
            return Move(dest, held.operand, item.position)
        self._write(dest, None)
        self.results[key] = self._held(dest)
        if is_array:
            self.arrays.add(self._key(dest))
        return item

    def _is_alike(self, held: _Held, dest: Register) -> bool:
        if not isinstance(held.operand, Register):
            return True
        return self.function.registers[held.operand.index] == self.function.registers[dest.index]

    def _is_array(self, item: Instruction) -> bool:
        if not isinstance(item, Binary) or item.op != "add":
            return False
        return any(self._is_in_array(each) for each in (item.a, item.b))

    def _is_in_array(self, operand: Operand) -> bool:
        if isinstance(operand, Address):
            return operand.address < MEMORY_BYTES  # beyond lie registers of the router
        return self._key(operand) in self.arrays

    def _loaded(self, item: Load) -> Instruction:
        key, kind = (self._key(item.address), item.offset), self.function.registers[item.dest.index]
        is_array = self._is_in_array(item.address)
        found = self.memory.get(key)
        if found is not None and found[0] == kind and self._holds(found[1]):
            self._write(item.dest, found[1])
            return Move(item.dest, found[1].operand, item.position)
        self._write(item.dest, None)
        if is_array and _is_whole(kind):
            self.memory[key] = kind, self._held(item.dest)
        return item

    def _stored(self, item: Store) -> None:
        if isinstance(item.address, Address):
            first = item.address.address + item.offset
            self.memory = {
                key: known
                for key, known in self.memory.items()
                if not _may_overlap(key, known[0], first, item.type)
            }
        else:
            self.memory.clear()
        is_known = self._is_in_array(item.address) and _is_whole(item.type)
        if is_known and self._is_of(item.source, item.type):
            key = self._key(item.address), item.offset
            self.memory[key] = item.type, self._held(item.source)

    def _is_of(self, source: Operand, kind: MachineType) -> bool:
        if isinstance(source, Register):
            return self.function.registers[source.index] == kind
        return isinstance(source, Constant) and source.type == kind


def _is_whole(kind: MachineType) -> bool:
    """Say whether memory holds all bits of a register of the type, and no others."""
    if isinstance(kind, DescriptorType):
        return True
    return kind.bits in (16, 32, 64)


def _may_overlap(
    key: tuple[Hashable, int], known: MachineType, first: int, kind: MachineType
) -> bool:
    address, offset = key
    if not isinstance(address, Address):
        return True
    start = address.address + offset
    return first - known.num_bytes < start < first + kind.num_bytes
