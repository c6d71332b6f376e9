"""FIFOs that the program gives registers: an operation on such a DSR is one on the FIFO."""

from dataclasses import dataclass, field, replace

from appliance.csl.diagnostics import CslError
from appliance.csl.program.code import Function
from appliance.csl.program.instructions import Block
from appliance.csl.program.operands import DsdOperand, Dsr, DsrKind, FifoReference
from appliance.csl.program.operations import DsdOperation
from appliance.csl.semantics.context.frames import Frame, Scope
from appliance.csl.semantics.context.session import guard
from appliance.csl.syntax import tree

Where = tuple[Frame, tree.Node]
KINDS = {"dsr_fifo_dest": DsrKind.DEST, "dsr_fifo_src1": DsrKind.SRC1}
"""The types of DSRs that hold a FIFO, and their register files."""


@dataclass(slots=True)
class FifoRegisters:
    """The DSRs of a code that hold FIFOs, and what it does with DSRs."""

    held: dict[Dsr, FifoReference] = field(default_factory=dict)
    """`.dest` and `.src` of `@allocate_fifo`."""
    used: dict[Dsr, Where] = field(default_factory=dict)
    """Operands of the types of `KINDS`."""
    loaded: dict[Dsr, Where] = field(default_factory=dict)
    """By `@load_to_dsr` and its like."""

    def check(self) -> None:
        """Report registers that hold no FIFO but should, and FIFOs that would be overwritten."""
        for dsr, (frame, node) in self.used.items():
            if dsr not in self.held:
                text = f"no FIFO is in DSR {dsr.number} of '{dsr.kind}'"
                frame.error(node, f"{text}; give '@allocate_fifo' '.dest', '.src' and '.xdsr'")
        for dsr, (frame, node) in self.loaded.items():
            if dsr in self.held:
                text = f"DSR {dsr.number} of '{dsr.kind}' holds a FIFO; load another"
                frame.error(node, text)

    def resolved(self, function: Function) -> Function:
        """Return a function whose operations name FIFOs, not the DSRs that hold them."""
        if not self.held:
            return function
        return replace(function, blocks=tuple([self._block(each) for each in function.blocks]))

    def _block(self, block: Block) -> Block:
        instructions = tuple([
            replace(each, operands=tuple([self._operand(item) for item in each.operands]))
            if isinstance(each, DsdOperation) else each
            for each in block.instructions
        ])  # fmt: skip
        return replace(block, instructions=instructions)

    def _operand(self, operand: DsdOperand) -> DsdOperand:
        return self.held.get(operand, operand) if isinstance(operand, Dsr) else operand


def place_fifos(module: Scope, frame: Frame) -> None:
    """Evaluate FIFOs with options, behind the blocks that bind the tasks which they name.

    What uses their DSRs need not name them.
    """
    for name, item in module.unit.declarations.items():
        if not isinstance(item, tree.Declaration) or item.value is None:
            continue
        if tree.has_call(item.value, "allocate_fifo", 2):
            try:
                module.lookup(name, frame, item)
            except CslError as error:
                guard(frame.world.session, error)
