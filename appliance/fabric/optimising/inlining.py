"""Small functions in place of their calls.

A function of one block that calls nobody is copied to where it is called: if it is called once, or
has few instructions. One of several blocks is copied only to functions that do nothing but call it,
such as the tasks at the ends of moves: elsewhere its call would be missing in a backtrace.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from appliance.csl.program import (
    Block,
    Branch,
    Call,
    CallIndirect,
    Function,
    Instruction,
    Jump,
    MachineType,
    Map,
    Move,
    Register,
    Return,
    Switch,
    Terminator,
)
from appliance.csl.program.operands import Operand
from appliance.fabric.optimising.registers import reads, renamed, with_dest, written

MOST_INSTRUCTIONS = 12
"""A longer function is copied only to a single call. Each further block counts as one."""


def inlined(functions: tuple[Function, ...]) -> tuple[Function, ...]:
    """Copy small functions to their calls; they stay themselves, for tasks and the host."""
    for _ in range(3):  # what calls a small function may be small itself then
        calls = Counter(
            item.function
            for function in functions
            for block in function.blocks
            for item in block.instructions
            if isinstance(item, Call)
        )
        small = {n: f for n, f in enumerate(functions) if calls[n] and _is_small(f, calls[n])}
        if not small:
            break
        functions = tuple(_with_copies(function, small) for function in functions)
    return functions


def _is_small(function: Function, num_calls: int) -> bool:
    items = [item for block in function.blocks for item in block.instructions]
    if not function.blocks or any(isinstance(item, Call | CallIndirect | Map) for item in items):
        return False
    if num_calls == 1 and len(function.blocks) == 1:
        return True
    return len(items) + len(function.blocks) - 1 <= MOST_INSTRUCTIONS


def _only_calls(function: Function) -> bool:
    return len(function.blocks) == 1 and len(function.blocks[0].instructions) == 1


def _with_copies(function: Function, small: dict[int, Function]) -> Function:
    if not _only_calls(function):
        small = {number: each for number, each in small.items() if len(each.blocks) == 1}
    calls = (item for block in function.blocks for item in block.instructions)
    if not any(isinstance(item, Call) and item.function in small for item in calls):
        return function
    return _Copies(function, small).written()


class _Copies:
    """Writes the blocks of a caller with copies of what it calls among them, in their order."""

    def __init__(self, caller: Function, small: dict[int, Function]) -> None:
        self._caller = caller
        self._small = small
        self._registers: list[MachineType] = list(caller.registers)
        self._names = list(caller.register_names)
        self._blocks: list[Block] = []
        self._places = _first_places(caller, small)

    def written(self) -> Function:
        """Return the caller with its copies."""
        for block in self._caller.blocks:
            self._write(block)
        return replace(
            self._caller,
            blocks=tuple(self._blocks),
            registers=tuple(self._registers),
            register_names=tuple(self._names),
        )

    def _write(self, block: Block) -> None:
        items: list[Instruction] = []
        for item in block.instructions:
            if isinstance(item, Call) and item.function in self._small:
                items = self._copy(item, self._small[item.function], items)
            else:
                items.append(item)
        end = _aimed(block.terminator, lambda target: self._places[target])
        self._blocks.append(Block(tuple(items), end))

    def _copy(self, call: Call, callee: Function, items: list[Instruction]) -> list[Instruction]:
        """Append the blocks of a copy behind what has been written; return what is still open."""
        first, here = len(self._registers), len(self._blocks)
        self._registers += callee.registers
        self._names += [""] * len(callee.registers)
        for number, argument in enumerate(call.arguments):
            items.append(Move(Register(first + number), argument, call.position))
        behind = here + len(callee.blocks)
        for block in callee.blocks:
            items += [_moved(item, first) for item in block.instructions]
            end = renamed(block.terminator, _shifted(block.terminator, first))
            if isinstance(end, Return):
                if call.dest is not None and end.value is not None:
                    items.append(Move(call.dest, end.value, call.position))
                if len(callee.blocks) == 1:
                    return items
                end = Jump(behind, end.position)
            else:
                end = _aimed(end, lambda target: here + target)
            self._blocks.append(Block(tuple(items), end))
            items = []
        return items


def _first_places(caller: Function, small: dict[int, Function]) -> list[int]:
    """Return where each block of a caller begins once the copies stand among them."""
    places, at = [], 0
    for block in caller.blocks:
        places.append(at)
        at += 1
        for item in block.instructions:
            if isinstance(item, Call) and item.function in small:
                num_blocks = len(small[item.function].blocks)
                at += num_blocks if num_blocks > 1 else 0
    return places


def _aimed(end: Terminator, place: Callable[[int], int]) -> Terminator:
    match end:
        case Jump():
            return replace(end, block=place(end.block))
        case Branch():
            return replace(end, then=place(end.then), otherwise=place(end.otherwise))
        case Switch():
            cases = tuple((value, place(block)) for value, block in end.cases)
            return replace(end, cases=cases, otherwise=place(end.otherwise))
        case _:
            return end


def _moved(item: Instruction, first: int) -> Instruction:
    moved = renamed(item, _shifted(item, first))
    dest = written(item)
    return moved if dest is None else with_dest(moved, Register(first + dest))


def _shifted(item: object, first: int) -> dict[int, Operand]:
    return {register: Register(first + register) for register in reads(item)}
