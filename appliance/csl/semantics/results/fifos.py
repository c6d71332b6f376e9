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


def _gives_registers(item: tree.Node) -> bool:
    """Whether a declaration is a FIFO with registers of the program's."""
    value = item.value if isinstance(item, tree.Declaration) else None
    if not isinstance(value, tree.BuiltinCall) or value.name != "allocate_fifo":
        return False
    options = value.arguments[1] if len(value.arguments) > 1 else None
    if isinstance(options, tree.Initializer):
        return any(field.name == "dest" for field in options.fields)
    return options is not None


@dataclass(slots=True)
class FifoRegisters:
    """The DSRs of a code that hold FIFOs, and what it does with DSRs."""

    held: dict[Dsr, FifoReference] = field(default_factory=dict)
    """`.dest` and `.src` of `@allocate_fifo`."""
    used: dict[Dsr, Where] = field(default_factory=dict)
    """Operands of the types of `KINDS`."""
    loaded: dict[Dsr, Where] = field(default_factory=dict)
    """By `@load_to_dsr` and its like."""
    waiting: list[tuple[Scope, str, tree.Node]] = field(default_factory=list)
    """Globals that may be FIFOs of which only the registers are used."""

    def note(self, module: Scope) -> None:
        """Remember a module's FIFOs that have registers of the program's."""
        declared = module.unit.declarations.items()
        self.waiting += [(module, name, item) for name, item in declared if _gives_registers(item)]

    def evaluate(self) -> None:
        """Make the FIFOs that nothing names; the tasks that they activate are bound by now."""
        for module, name, node in self.waiting:
            try:
                module.lookup(name, module.frame, node)
            except CslError as error:
                guard(module.frame.world.session, error)

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
