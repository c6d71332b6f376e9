"""Small functions in place of their calls.

A function of one block that calls nobody is copied to where it is called: if it is called once, or
has few instructions. Its registers follow the caller's.
"""

from collections import Counter
from dataclasses import replace

from appliance.csl.program import (
    Block,
    Call,
    CallIndirect,
    Function,
    Instruction,
    Map,
    Move,
    Register,
    Return,
)
from appliance.csl.program.operands import Operand
from appliance.fabric.optimising.registers import reads, renamed, with_dest, written

MOST_INSTRUCTIONS = 12
"""A longer function is copied only to a single call."""


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
    if len(function.blocks) != 1 or not isinstance(function.blocks[0].terminator, Return):
        return False
    items = function.blocks[0].instructions
    if any(isinstance(item, Call | CallIndirect | Map) for item in items):
        return False
    return num_calls == 1 or len(items) <= MOST_INSTRUCTIONS


def _with_copies(function: Function, small: dict[int, Function]) -> Function:
    registers, names = list(function.registers), list(function.register_names)
    blocks = []
    for block in function.blocks:
        items: list[Instruction] = []
        for item in block.instructions:
            if isinstance(item, Call) and item.function in small:
                callee = small[item.function]
                items += _copy(item, callee, len(registers))
                registers += callee.registers
                names += [""] * len(callee.registers)
            else:
                items.append(item)
        blocks.append(Block(tuple(items), block.terminator))
    return replace(
        function, blocks=tuple(blocks), registers=tuple(registers), register_names=tuple(names)
    )


def _copy(call: Call, callee: Function, first: int) -> list[Instruction]:
    (block,) = callee.blocks
    items: list[Instruction] = [
        Move(Register(first + number), argument, call.position)
        for number, argument in enumerate(call.arguments)
    ]
    for item in block.instructions:
        moved = renamed(item, _shifted(item, first))
        dest = written(item)
        if dest is not None:
            moved = with_dest(moved, Register(first + dest))
        items.append(moved)
    if call.dest is not None and isinstance(block.terminator, Return):
        end = renamed(block.terminator, _shifted(block.terminator, first))
        if end.value is not None:
            items.append(Move(call.dest, end.value, call.position))
    return items


def _shifted(item: object, first: int) -> dict[int, Operand]:
    return {register: Register(first + register) for register in reads(item)}
