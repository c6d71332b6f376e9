"""Writes instructions: numbers, jump targets that are known later, and costs."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from appliance.csl.program import Position
from appliance.fabric.bytecode import INSTRUCTION, Op
from appliance.wafer.instruction_costs import SCALAR_CYCLES


def _cost_class(name: str) -> str:
    if name.startswith(("DIV", "REM")):
        return "integer_divide"
    if name.startswith(("FDIV", "FREM")):
        return "float_divide"
    for prefix, kind in _PREFIXES:
        if name.startswith(prefix):
            return kind
    return "simple"


_PREFIXES = (
    *(("LOAD_DSR", "descriptor"), ("DSD_", "descriptor"), ("LOAD", "load"), ("STORE", "store")),
    *(("INDEX_LOAD", "element"), ("INDEX_STORE", "element"), ("IF", "branch"), ("JUMP", "jump")),
    *(("CALL", "call"), ("RETURN", "call"), ("INTRINSIC", "service"), ("ACTIVATE", "simple")),
)
COSTS: tuple[int, ...] = tuple(SCALAR_CYCLES[_cost_class(op.name)] for op in Op)
"""Clock cycles by instruction; 0 for those that count their own."""
_FREE = {Op.STOP, Op.VECTOR, Op.MAP_BEGIN, Op.ASSERT, Op.SAVE, Op.RESTORE, Op.MOV}


@dataclass
class Emitter:
    """The code of one class while it is written.

    Attributes:
        rows: Instructions as tuples of `INSTRUCTION`.
        positions: For each, the source position (file, line, column) or None.
    """

    rows: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    positions: list[tuple[int, int, int] | None] = field(default_factory=list)
    position: tuple[int, int, int] | None = None

    def emit(
        self, op: Op, a: int = 0, b: int = 0, c: int = 0, *, imm: int = 0, cost: int | None = None
    ) -> int:
        """Append an instruction and return its number."""
        cycles = (0 if op in _FREE else COSTS[op]) if cost is None else cost
        self.rows.append((int(op), a, b, c, imm, cycles))
        self.positions.append(self.position)
        return len(self.rows) - 1

    def place(self, position: Position) -> None:
        """Say where in the sources the next instructions come from."""
        self.position = (position.file, position.line, position.column)

    def aim(self, instruction: int, target: int) -> None:
        """Set the jump target of an instruction."""
        op, a, b, c, _, cost = self.rows[instruction]
        self.rows[instruction] = (op, a, b, c, target, cost)

    @property
    def here(self) -> int:
        """Number of the next instruction."""
        return len(self.rows)

    def array(self) -> NDArray[np.void]:
        """Return the code as the kernel reads it."""
        return np.array(self.rows, dtype=INSTRUCTION)
