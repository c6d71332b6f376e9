"""Instructions of one function while it is compiled."""

from collections.abc import Iterable
from dataclasses import replace

from appliance.csl.program.code import Function
from appliance.csl.program.instructions import (
    Binary,
    Block,
    Branch,
    Call,
    CallIndirect,
    Convert,
    Instruction,
    Jump,
    Load,
    Move,
    Return,
    Store,
    Switch,
    Terminator,
    Unary,
    Unreachable,
)
from appliance.csl.program.operands import Address, Constant, Operand, Register
from appliance.csl.program.operations import DsdOperation, Map
from appliance.csl.program.types import BOOL, POINTER, MachineType, Position, Scalar


class _Open:
    """A block that may still grow."""

    __slots__ = ("instructions", "terminator")

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.terminator: Terminator | None = None


class FunctionBuilder:
    """Makes one `Function`."""

    def __init__(self, name: str, position: Position) -> None:
        self.name = name
        self.position = position
        self.registers: list[MachineType] = []
        self.names: list[str] = []
        self.calls: set[int] = set()
        self.may_stop = False
        self.has_errors = False
        """Whether a statement is missing that had an error, and with it perhaps a `return`."""
        self.is_only_typed = False
        """Whether the code that comes is thrown away: what it calls need not be compiled."""
        self.num_emitted = 0
        self.blocks: list[_Open] = [_Open()]
        self._current = self.blocks[0]
        self._index = 0

    def register(self, type_: MachineType, name: str = "") -> Register:
        """A new register."""
        self.registers.append(type_)
        self.names.append(name)
        return Register(len(self.registers) - 1)

    def emit(self, instruction: Instruction) -> None:
        """Appends an instruction; code that cannot be reached is dropped."""
        if self._current.terminator is None:
            self._current.instructions.append(instruction)
            self.num_emitted += 1
            if isinstance(instruction, DsdOperation | Map):
                self.may_stop = True
                if isinstance(instruction, Map):
                    self.calls.add(instruction.function)
            elif isinstance(instruction, Call):
                self.calls.add(instruction.function)
            elif isinstance(instruction, CallIndirect):
                self.may_stop = True

    @property
    def is_open(self) -> bool:
        """Whether the next instruction is reachable."""
        return self._current.terminator is None

    @property
    def current(self) -> int:
        """The block that instructions go to."""
        return self._index

    def close(self, position: Position) -> None:
        """Marks following instructions as unreachable."""
        self.terminate(Unreachable(position))

    def new_block(self) -> int:
        """A block that nothing is in yet."""
        self.blocks.append(_Open())
        return len(self.blocks) - 1

    def go_to(self, block: int) -> None:
        """Appends following instructions to this block."""
        self._index = block
        self._current = self.blocks[block]

    def terminate(self, terminator: Terminator) -> None:
        """Ends the block."""
        if self._current.terminator is None:
            self._current.terminator = terminator

    def jump(self, block: int, position: Position) -> None:
        """Ends the block by going to another."""
        self.terminate(Jump(block, position))

    def branch(self, condition: Operand, then: int, otherwise: int, position: Position) -> None:
        """Ends the block by going to one of two others."""
        self.terminate(Branch(condition, then, otherwise, position))

    def move(self, dest: Register, source: Operand, position: Position) -> None:
        """`dest = source`."""
        self.emit(Move(dest, source, position))

    def unary(self, op: str, type_: Scalar, a: Operand, position: Position) -> Register:
        """A new register with `op a`."""
        dest = self.register(type_)
        self.emit(Unary(dest, op, type_, a, position))
        return dest

    def binary(
        self, op: str, type_: Scalar, a: Operand, b: Operand, position: Position
    ) -> Register:
        """A new register with `a op b`."""
        dest = self.register(BOOL if op in _COMPARISONS else type_)
        self.emit(Binary(dest, op, type_, a, b, position))
        return dest

    def convert(
        self, a: Operand, source: Scalar, to: Scalar, position: Position, *, bitwise: bool = False
    ) -> Register:
        """A new register with `a` in another type."""
        dest = self.register(to)
        self.emit(Convert(dest, a, source, to, bitwise, position))
        return dest

    def load(self, type_: MachineType, base: Operand, offset: int, position: Position) -> Register:
        """A new register with a value loaded from memory."""
        dest = self.register(type_)
        base, offset = folded(base, offset)
        self.emit(Load(dest, base, offset, position))
        return dest

    def store(
        self, base: Operand, offset: int, source: Operand, type_: MachineType, position: Position
    ) -> None:
        """Writes to memory."""
        base, offset = folded(base, offset)
        self.emit(Store(base, offset, source, type_, position))

    def address(self, base: Operand, offset: int, position: Position) -> Operand:
        """`base + offset` as one operand."""
        base, offset = folded(base, offset)
        if offset == 0:
            return base
        return self.binary("add", POINTER, base, Constant(POINTER, offset & 0xFFFF), position)

    def finish(
        self, num_parameters: int, result: MachineType | None, *, may_wait: bool
    ) -> Function:
        """The function, without blocks that cannot be reached."""
        order, blocks = self._reachable()
        return Function(
            name=self.name,
            num_parameters=num_parameters,
            result=result,
            registers=tuple(self.registers),
            register_names=tuple(self.names),
            blocks=tuple(
                Block(tuple(block.instructions), _renumbered(block.terminator, order))
                for block in blocks
                if block.terminator is not None
            ),
            may_wait=may_wait,
            position=self.position,
        )

    def _reachable(self) -> tuple[dict[int, int], list[_Open]]:
        """New numbers of the blocks that can be reached; empty ones have their successor's."""
        order: dict[int, int] = {}
        found: list[_Open] = []
        pending = [0]
        skipped: dict[int, int] = {}
        while pending:
            start = pending.pop()
            number = self._behind_empty(start)
            if number != start:
                skipped[start] = number
            if number in order:
                continue
            order[number] = len(found)
            block = self.blocks[number]
            if block.terminator is None:
                block.terminator = Unreachable(self.position)
            found.append(block)
            pending.extend(reversed(list(_targets(block.terminator))))
        return order | {start: order[number] for start, number in skipped.items()}, found

    def _behind_empty(self, number: int) -> int:
        """Where a block leads that only jumps; itself if it does more, or jumps in a circle."""
        seen = {number}
        at = number
        while not self.blocks[at].instructions:
            terminator = self.blocks[at].terminator
            if not isinstance(terminator, Jump):
                return at
            at = terminator.block
            if at in seen:
                return number
            seen.add(at)
        return at


_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


def folded(base: Operand, offset: int) -> tuple[Operand, int]:
    """A known address with the offset inside it."""
    if isinstance(base, Address):
        return Address((base.address + offset) & 0xFFFF, base.symbol), 0
    return base, offset


def _targets(terminator: Terminator) -> Iterable[int]:
    match terminator:
        case Jump(block=block):
            return (block,)
        case Branch(then=then, otherwise=otherwise):
            return (then, otherwise)
        case Switch(cases=cases, otherwise=otherwise):
            return (*(block for _, block in cases), otherwise)
        case Return() | Unreachable():
            return ()


def _renumbered(terminator: Terminator, order: dict[int, int]) -> Terminator:
    match terminator:
        case Jump(block=block):
            return replace(terminator, block=order[block])
        case Branch(then=then, otherwise=otherwise):
            return replace(terminator, then=order[then], otherwise=order[otherwise])
        case Switch(cases=cases, otherwise=otherwise):
            renumbered = tuple((value, order[block]) for value, block in cases)
            return replace(terminator, cases=renumbered, otherwise=order[otherwise])
        case Return() | Unreachable():
            return terminator
