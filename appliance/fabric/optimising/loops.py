"""What is the same in every round of a loop is computed once, in front of it.

Loads stay where they are unless no operation of the class writes memory by itself: a loop may wait
for what a microthread writes.
"""

from collections.abc import Iterator
from dataclasses import replace

from appliance.csl.program import (
    Address,
    Binary,
    Block,
    Branch,
    Convert,
    DsdUpdate,
    Function,
    Instruction,
    Unary,
)
from appliance.fabric.optimising.registers import (
    cannot_fail,
    reads,
    single_writes,
    successors,
    writes_of,
    written,
)

_MOVABLE = (Unary, Binary, Convert, DsdUpdate)


def before_loops(function: Function) -> Function:
    """Move computations in front of the loops that do not change them, innermost loops first."""
    for header, body in sorted(_loops(function), key=lambda loop: len(loop[1])):
        function = _lifted(function, header, body)
    return function


def _loops(function: Function) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield loops as their first block and all their blocks; each has one way in."""
    ends = {n: successors(block.terminator) for n, block in enumerate(function.blocks)}
    before: dict[int, set[int]] = {number: set() for number in ends}
    for number, targets in ends.items():
        for target in targets:
            before[target].add(number)
    found: dict[int, set[int]] = {}
    for number, targets in ends.items():
        for header in targets:
            if header <= number:
                found.setdefault(header, {header}).update(_reaching(number, header, before))
    for header, body in found.items():
        if 0 not in body and all(before[block] <= body for block in body - {header}):
            yield header, frozenset(body)


def _reaching(start: int, header: int, before: dict[int, set[int]]) -> set[int]:
    reached, waiting = {header, start}, [start] if start != header else []
    while waiting:
        for number in before[waiting.pop()] - reached:
            reached.add(number)
            waiting.append(number)
    return reached


def _lifted(function: Function, header: int, body: frozenset[int]) -> Function:
    outside = [
        number
        for number, block in enumerate(function.blocks)
        if number not in body and header in successors(block.terminator)
    ]
    if len(outside) != 1:
        return function
    blocks = list(function.blocks)
    changed = set(writes_of(blocks[number] for number in body))
    once, moved = single_writes(function), list[Instruction]()
    for number in sorted(body):
        kept = []
        for item in blocks[number].instructions:
            if _is_fixed(item, changed, once):
                moved.append(item)
                changed.discard(written(item) or 0)
            else:
                kept.append(item)
        blocks[number] = replace(blocks[number], instructions=tuple(kept))
    if not moved:
        return function
    blocks[outside[0]] = _extended(blocks[outside[0]], moved)
    return replace(function, blocks=tuple(blocks))


def _is_fixed(item: Instruction, changed: set[int], once: frozenset[int]) -> bool:
    if not isinstance(item, _MOVABLE) or not cannot_fail(item) or _is_address(item):
        return False
    return item.dest.index in once and not any(register in changed for register in reads(item))


def _is_address(item: Instruction) -> bool:
    """An address of an element with a known index is part of the access."""
    return isinstance(item, Binary) and isinstance(item.a, Address) and not set(reads(item))


def _extended(block: Block, moved: list[Instruction]) -> Block:
    """Append to a block, before the comparison that its branch is made of."""
    items = block.instructions
    is_test = (
        isinstance(block.terminator, Branch)
        and bool(items)
        and set(reads(block.terminator)) == {written(items[-1])}
    )
    at = len(items) - is_test
    return replace(block, instructions=(*items[:at], *moved, *items[at:]))
