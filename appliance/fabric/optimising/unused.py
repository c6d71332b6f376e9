"""What nobody reads is not computed, and a check of an index that is not made is no reader."""

from collections import Counter
from dataclasses import replace

from appliance.csl.program import (
    Address,
    Block,
    CheckIndex,
    Function,
    Instruction,
    Load,
    Move,
    Register,
)
from appliance.fabric.optimising.registers import PURE, cannot_fail, reads, reads_of


def without_checks(function: Function) -> Function:
    """Leave out the checks of indices, for programs that are not checked."""
    blocks = tuple(
        Block(
            tuple(item for item in block.instructions if not isinstance(item, CheckIndex)),
            block.terminator,
        )
        for block in function.blocks
    )
    return replace(function, blocks=blocks)


def without_unused(function: Function) -> Function:
    """Leave out what computes or loads a register that is never read."""
    counts = reads_of(function)
    blocks, before = list(function.blocks), list[Block]()
    while blocks != before:
        before = list(blocks)
        for at in reversed(range(len(blocks))):
            blocks[at] = _used(blocks[at], counts)
    return replace(function, blocks=tuple(blocks))


def _used(block: Block, counts: Counter[int]) -> Block:
    """Return a block without what nobody reads, from its end; what that read counts no more."""
    kept = []
    for item in reversed(block.instructions):
        if _is_unused(item, counts):
            counts.subtract(reads(item))
        else:
            kept.append(item)
    if len(kept) == len(block.instructions):
        return block
    return Block(tuple(reversed(kept)), block.terminator)


def _is_unused(item: Instruction, counts: dict[int, int]) -> bool:
    dest = getattr(item, "dest", None)
    if isinstance(item, Move) and item.source == dest:
        return True
    if not isinstance(dest, Register) or counts.get(dest.index, 0):
        return False
    if isinstance(item, Load):
        return isinstance(item.address, Address)
    return isinstance(item, PURE) and cannot_fail(item)
