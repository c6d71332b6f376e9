"""Where code is evaluated: the module, the local names, and the code that is being made."""

from typing import TYPE_CHECKING, NoReturn

from appliance.csl.diagnostics import CslError, Diagnostic, Note, Severity
from appliance.csl.program.types import Position
from appliance.csl.semantics import types as t
from appliance.csl.semantics.types import Type
from appliance.csl.semantics.values import Value
from appliance.csl.sources import Span
from appliance.csl.syntax import tree

if TYPE_CHECKING:
    from appliance.csl.semantics.builder import FunctionBuilder
    from appliance.csl.semantics.flow import Exit
    from appliance.csl.semantics.modules import Module
    from appliance.csl.semantics.place_kinds import Place
    from appliance.csl.semantics.world import World

MAX_NOTES = 8


class Frame:
    """One activation of a function, a block, or an initialiser.

    `builder` is None where everything must be known at compile time.
    """

    __slots__ = (
        "builder",
        "call_node",
        "caller",
        "depth",
        "exits",
        "function_exit",
        "locals",
        "memory_locals",
        "module",
        "nesting",
        "undo",
        "what",
    )

    def __init__(
        self,
        module: "Module",
        *,
        what: str,
        builder: "FunctionBuilder | None" = None,
        caller: "Frame | None" = None,
        call_node: tree.Node | None = None,
    ) -> None:
        self.module = module
        self.what = what
        self.builder = builder
        self.caller = caller
        self.call_node = call_node
        self.depth: int = caller.depth + 1 if caller else 0
        self.locals: dict[str, Value | Place] = {}
        self.undo: list[tuple[str, Value | Place | None]] = []
        self.exits: list[Exit] = []
        self.function_exit: Exit | None = None
        self.nesting = 0
        self.memory_locals: frozenset[str] = frozenset()

    @property
    def world(self) -> "World":
        """The layout or tile that is being made."""
        return self.module.world

    def comptime(self) -> "Frame":
        """The same place, with everything known at compile time."""
        if self.builder is None:
            return self
        frame = Frame(self.module, what=self.what, caller=self.caller, call_node=self.call_node)
        frame.depth = self.depth
        frame.locals = self.locals
        frame.undo = self.undo
        return frame

    def declare(self, name: str, value: "Value | Place") -> None:
        """Gives a local name its meaning until the block ends."""
        self.undo.append((name, self.locals.get(name)))
        self.locals[name] = value

    def leave_block(self, mark: int) -> None:
        """Forgets the local names declared since `len(undo)` was `mark`."""
        undo = self.undo
        while len(undo) > mark:
            name, before = undo.pop()
            if before is None:
                del self.locals[name]
            else:
                self.locals[name] = before

    def span(self, node: tree.Node) -> Span:
        """A node's place."""
        return Span(self.module.unit.source, node.start, node.end)

    def position(self, node: tree.Node) -> Position:
        """A node's place as the program keeps it."""
        return self.world.session.position(self.module.unit.source, node.start)

    def fail(
        self, node: tree.Node | tuple[int, int], text: str, notes: tuple[Note, ...] = ()
    ) -> NoReturn:
        """Ends the statement with an error at a node, or at a (start, end)."""
        raise CslError(self._diagnostic(Severity.ERROR, node, text, notes))

    def spend(self, node: tree.Node, number: int = 1) -> None:
        """Counts loop turns, calls and what costs as much; fails once there were too many."""
        session = self.module.world.session
        session.steps += number
        if session.steps > session.options.comptime_steps:
            self.fail(node, f"more than {session.options.comptime_steps} steps at compile time")

    def spend_value(self, node: tree.Node, type_: Type) -> None:
        """Counts the work of making a value; fails if it is too large a one."""
        elements = type_.num_elements
        if elements > t.MAX_ELEMENTS:
            self.fail(node, f"a value of more than {t.MAX_ELEMENTS} elements")
        if elements >= t.ELEMENTS_PER_STEP:
            self.spend(node, elements // t.ELEMENTS_PER_STEP)

    def error(self, node: tree.Node, text: str, notes: tuple[Note, ...] = ()) -> None:
        """Reports an error and goes on."""
        self.world.session.report(self._diagnostic(Severity.ERROR, node, text, notes))

    def warn(self, node: tree.Node, text: str) -> None:
        """Reports a warning."""
        if not self.module.unit.is_library:
            self.world.session.report(self._diagnostic(Severity.WARNING, node, text, ()))

    def silent(self) -> NoReturn:
        """Ends the statement because of an error that is already reported."""
        raise CslError(Diagnostic(Severity.ERROR, "", None))

    def _diagnostic(
        self,
        severity: Severity,
        node: tree.Node | tuple[int, int],
        text: str,
        notes: tuple[Note, ...],
    ) -> Diagnostic:
        start, end = node if isinstance(node, tuple) else (node.start, node.end)
        span = Span(self.module.unit.source, start, end)
        return Diagnostic(severity, text, span, notes + self._chain())

    def _chain(self) -> tuple[Note, ...]:
        """How evaluation came here: the calls, then the imports."""
        notes: list[Note] = []
        frame: Frame | None = self
        outermost = self
        while frame is not None:
            if frame.caller is not None and frame.call_node is not None:
                notes.append(
                    Note(f"in {frame.what}, called here", frame.caller.span(frame.call_node))
                )
            outermost = frame
            frame = frame.caller
        if len(notes) > MAX_NOTES:
            hidden = len(notes) - MAX_NOTES
            notes = [
                *notes[: MAX_NOTES // 2],
                Note(f"{hidden} more calls"),
                *notes[-MAX_NOTES // 2 :],
            ]
        module: Module | None = outermost.module
        while module is not None and module.importer is not None:
            frame, node = module.importer
            notes.append(Note(f"'{module.unit.source.path}' is imported here", frame.span(node)))
            module = frame.module
        if module is not None and module.origin is not None:
            notes.append(module.origin)
        return tuple(notes)
