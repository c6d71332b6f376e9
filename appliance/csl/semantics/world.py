"""What is being made: the layout, or the code of one class of PEs."""

from appliance.csl.program.types import Position
from appliance.csl.semantics.builder import FunctionBuilder
from appliance.csl.semantics.frames import Frame
from appliance.csl.semantics.modules import GlobalVariable, Module
from appliance.csl.semantics.session import Session
from appliance.csl.semantics.types import Type
from appliance.csl.semantics.values import Const, FunctionValue, Value
from appliance.csl.syntax import tree


class World:
    """What both have: names, remembered calls, a count of effects."""

    is_tile = False

    def __init__(self, session: Session) -> None:
        self.session = session
        self.effects = 0
        """Grows with everything that a call does besides giving a value; a call during which
        it stays the same may be remembered."""
        self.calls: dict[object, Value] = {}
        self.pending: list[Module] = []
        """Modules whose comptime blocks have not run yet."""
        self._names: dict[str, int] = {}

    def unique_name(self, name: str) -> str:
        """The name, with a number behind it if it is taken."""
        count = self._names.get(name, 0) + 1
        self._names[name] = count
        return name if count == 1 else f"{name}.{count}"

    def place(self, variable: GlobalVariable) -> int:
        """Gives a variable its address; the layout has no memory, so any will do."""
        return 0

    def name_fifo(self, fifo: Const, name: str) -> None:
        """Says what a FIFO is called."""

    def pooled(self, value: Const, frame: Frame, node: tree.Node) -> GlobalVariable:
        """A constant in memory."""
        return self._no_memory(frame, node)

    def local_variable(
        self, builder: FunctionBuilder, name: str, type_: Type, position: Position
    ) -> GlobalVariable:
        """Memory for a local variable."""
        raise AssertionError("a layout emits no code")

    def function_index(self, function: FunctionValue, frame: Frame, node: tree.Node) -> int:
        """A function's number, for its address."""
        self._no_memory(frame, node)
        return 0

    def request(
        self,
        key: object,
        types: list[Type],
        constants: list[Const | None],
        result: Type,
        frame: Frame,
        node: tree.Node,
    ) -> int:
        """A function's number, for a call."""
        raise AssertionError("a layout emits no code")

    def _no_memory(self, frame: Frame, node: tree.Node) -> GlobalVariable:
        frame.fail(node, "a layout has no memory")
