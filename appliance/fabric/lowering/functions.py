"""Functions: blocks, calls, branches, services."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from appliance.csl.program import (
    Activate,
    Assert,
    Binary,
    Block,
    Branch,
    Call,
    CallIndirect,
    CheckIndex,
    Convert,
    Copy,
    DsdMake,
    DsdOperation,
    DsdUpdate,
    Instruction,
    Intrinsic,
    Jump,
    Load,
    LoadDsr,
    Map,
    Move,
    Register,
    Return,
    Scalar,
    SetBlocked,
    Store,
    Switch,
    Unary,
    Unreachable,
)
from appliance.fabric.bytecode import SERVICES, Op
from appliance.fabric.lowering import scalars, vectors
from appliance.fabric.lowering.body import Body
from appliance.fabric.lowering.frames import RESULT
from appliance.fabric.optimising.elements import LoadElement, StoreElement
from appliance.fabric.optimising.registers import written
from appliance.wafer.instruction_costs import SCALAR_CYCLES


def _call(body: Body, i: Call) -> None:
    _enter(body, i.function, [body.operand(argument) for argument in i.arguments])
    if i.dest is not None:
        body.code.emit(Op.MOV, body.slot(i.dest), RESULT)


def _enter(body: Body, callee: int, arguments: list[int]) -> None:
    window = body.context.windows[callee]
    if not body.context.same_cycle(body.number, callee):
        for number, slot in enumerate(arguments):
            body.code.emit(Op.MOV, window.first + number, slot)
        body.context.calls.append((body.code.emit(Op.CALL, window.return_slot), callee))
        return
    staging = body.frame.reserve(len(arguments))
    for number, slot in enumerate(arguments):
        body.code.emit(Op.MOV, staging + number, slot)
    saved = body.window.num_registers + 1
    body.code.emit(Op.SAVE, body.window.first, imm=saved)
    for number in range(len(arguments)):
        body.code.emit(Op.MOV, window.first + number, staging + number)
    body.context.calls.append((body.code.emit(Op.CALL, window.return_slot), callee))
    body.code.emit(Op.RESTORE, body.window.first, imm=saved)


def _call_indirect(body: Body, i: CallIndirect) -> None:
    staging = body.frame.reserve(max(1, len(i.arguments)))
    for number, argument in enumerate(i.arguments):
        body.code.emit(Op.MOV, staging + number, body.operand(argument))
    body.code.emit(Op.CALL_POINTER, staging, body.operand(i.pointer), len(i.arguments))
    if i.dest is not None:
        body.code.emit(Op.MOV, body.slot(i.dest), RESULT)


def _activate(body: Body, i: Activate) -> None:
    body.code.emit(Op.ACTIVATE, body.operand(i.task.id))


def _set_blocked(body: Body, i: SetBlocked) -> None:
    kind = vectors.target_number(i.target.kind)
    body.code.emit(Op.SET_BLOCKED, body.operand(i.target.id), int(i.blocked), imm=kind)


def _assert(body: Body, i: Assert) -> None:
    body.code.emit(Op.ASSERT, body.operand(i.condition))


_SERVICE_COST = {"sqrt": "square_root", "random16": "random", "floor": "simple", "ceil": "simple"}
_SERVICE_COST |= dict.fromkeys(("coordinate_x", "coordinate_y", "scale"), "simple")
_SERVICE_COST |= dict.fromkeys(("exp", "log", "sin", "cos", "tanh", "pow"), "function")
_FREE_SERVICES = frozenset({"print_character", "timestamp_enable", "timestamp_disable"})
"""Printing is the simulator's; a measurement should not measure itself."""


def _service(body: Body, i: Intrinsic) -> None:
    staging = body.frame.reserve(len(i.arguments)) if i.arguments else 0
    for number, argument in enumerate(i.arguments):
        body.code.emit(Op.MOV, staging + number, body.operand(argument))
    kind = None if i.dest is None else body.type_of(i.dest)
    dest = body.frame.reserve(1) if i.dest is None else body.slot(i.dest)
    is_half = isinstance(kind, Scalar) and kind.is_float and kind.bits == 16
    cost, number = _service_cycles(body, i.name), SERVICES.index(i.name)
    body.code.emit(Op.INTRINSIC, dest, staging, int(is_half), imm=number, cost=cost)


def _service_cycles(body: Body, name: str) -> int:
    if name in _FREE_SERVICES:
        return 0
    if name == "timestamp_read":
        return body.context.machine.clock_read_cycles
    return SCALAR_CYCLES[_SERVICE_COST.get(name, "service")]


_LOWERINGS: dict[type, Callable[[Body, Any], None]] = {
    Move: scalars.move,
    Unary: scalars.unary,
    Binary: scalars.binary,
    Convert: scalars.convert,
    Load: scalars.load,
    Store: scalars.store,
    LoadElement: scalars.load_element,
    StoreElement: scalars.store_element,
    Copy: scalars.copy,
    CheckIndex: scalars.check_index,
    Call: _call,
    CallIndirect: _call_indirect,
    Activate: _activate,
    SetBlocked: _set_blocked,
    Assert: _assert,
    DsdMake: vectors.make,
    DsdUpdate: vectors.update,
    DsdOperation: vectors.operation,
    LoadDsr: vectors.load_dsr,
    Map: vectors.map_,
    Intrinsic: _service,
}


def lower_function(body: Body) -> None:
    """Emit the code of a function."""
    if body.function is None:
        return
    writer = _Blocks(body, body.function.blocks)
    for number, block in enumerate(body.function.blocks):
        writer.write(number, block)
    writer.aim_all()


def _reads(item: object) -> Iterator[int]:
    """Yield the registers that occur in an instruction; where it writes them, too."""
    if isinstance(item, Register):
        yield item.index
    elif isinstance(item, tuple):
        for part in item:
            yield from _reads(part)
    elif is_dataclass(item) and not isinstance(item, type):
        for field in fields(item):
            if field.name != "position":
                yield from _reads(getattr(item, field.name))


class _Blocks:
    """Lays out the blocks of a function in their order."""

    def __init__(self, body: Body, blocks: tuple[Block, ...]) -> None:
        self._body = body
        self._blocks = blocks
        self._starts: dict[int, int] = {}
        self._jumps: list[tuple[int, int]] = []
        self._uses: Counter[int] = Counter()
        for block in blocks:
            self._uses.update(_reads(block.instructions))
            self._uses.update(_reads(block.terminator))

    def write(self, number: int, block: Block) -> None:
        """Emit one block."""
        self._starts[number] = self._body.code.here
        fused = self._fused(block)
        instructions = block.instructions[:-1] if fused else block.instructions
        self._body.in_dsrs.clear()
        for instruction in instructions:
            self._body.code.place(instruction.position)
            _LOWERINGS[type(instruction)](self._body, instruction)
            self._forget(instruction)
        self._body.code.place(block.terminator.position)
        self._end(number, block, fused)

    def _forget(self, instruction: Instruction) -> None:
        """Drop from what lies in DSRs a descriptor that was changed, and all after a call."""
        if isinstance(instruction, Call | CallIndirect):
            self._body.in_dsrs.clear()
        register = written(instruction)
        if register is not None and self._body.in_dsrs:
            slot = self._body.slot(Register(register))
            self._body.in_dsrs -= {each for each in self._body.in_dsrs if each[1] == slot}

    def aim_all(self) -> None:
        """Set the targets of all jumps."""
        for instruction, block in self._jumps:
            self._body.code.aim(instruction, self._starts[block])

    def _fused(self, block: Block) -> Binary | None:
        """Return the comparison that only the branch at the end of the block reads."""
        end = block.terminator
        if not block.instructions or not isinstance(end, Branch):
            return None
        last = block.instructions[-1]
        if not isinstance(last, Binary) or last.op not in scalars.COMPARISONS:
            return None
        is_only = last.dest == end.condition and self._uses[last.dest.index] == 2
        return last if is_only and not last.type.is_float else None

    def _end(self, number: int, block: Block, fused: Binary | None) -> None:
        match block.terminator:
            case Jump(block=target):
                self._jump(number, target)
            case Branch() as branch:
                self._branch(number, branch, fused)
            case Switch() as switch:
                self._switch(number, switch)
            case Return(value=value):
                if value is not None:
                    self._body.code.emit(Op.MOV, RESULT, self._body.operand(value))
                self._body.code.emit(Op.RETURN, self._body.window.return_slot)
            case Unreachable():
                self._body.code.emit(Op.ASSERT, self._body.frame.constant(0))

    def _jump(self, number: int, target: int) -> None:
        if target == number + 1:
            return
        target = self._beyond_empty(target)
        block = self._blocks[target]
        if not block.instructions and block.terminator == Return(None, block.terminator.position):
            self._body.code.emit(Op.RETURN, self._body.window.return_slot)
        else:
            self._jumps.append((self._body.code.emit(Op.JUMP), target))

    def _beyond_empty(self, target: int) -> int:
        """Return where a jump to a block comes out that only jumps on."""
        for _ in self._blocks:
            block = self._blocks[target]
            if block.instructions or not isinstance(block.terminator, Jump):
                break
            target = block.terminator.block
        return target

    def _branch(self, number: int, branch: Branch, fused: Binary | None) -> None:
        then, otherwise = branch.then, branch.otherwise
        negate = then == number + 1
        if negate:
            then, otherwise = otherwise, then
        if fused is None:
            op = Op.IF_NOT if negate else Op.IF
            jump = self._body.code.emit(op, self._body.operand(branch.condition))
        else:
            jump = self._compare_and_jump(fused, negate=negate)
        self._jumps.append((jump, then))
        self._jump(number, otherwise)

    def _compare_and_jump(self, test: Binary, *, negate: bool) -> int:
        op, a, b = test.op, self._body.operand(test.a), self._body.operand(test.b)
        if op in ("gt", "ge"):
            op, a, b = {"gt": "lt", "ge": "le"}[op], b, a
        if negate and op in ("lt", "le"):
            op, a, b = {"lt": "le", "le": "lt"}[op], b, a
        elif negate:
            op = {"eq": "ne", "ne": "eq"}[op]
        sign = "" if op in ("eq", "ne") else "_S" if test.type.is_signed else "_U"
        return self._body.code.emit(Op[f"IF_{op.upper()}{sign}"], a, b)

    def _switch(self, number: int, switch: Switch) -> None:
        value = self._body.operand(switch.value)
        for case, block in switch.cases:
            bits = switch.type.bits
            case_value = case if switch.type.is_signed else case & ((1 << bits) - 1)
            constant = self._body.frame.constant(case_value)
            self._jumps.append((self._body.code.emit(Op.IF_EQ, value, constant), block))
        self._jump(number, switch.otherwise)
