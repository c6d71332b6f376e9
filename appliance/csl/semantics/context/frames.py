"""Frames, modules as frames see them, and the layout or tile that is being compiled."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from appliance.csl.diagnostics import CslError, Diagnostic, Note, Severity
from appliance.csl.program.types import Position
from appliance.csl.releases import problem_of
from appliance.csl.semantics.context.builder import FunctionBuilder
from appliance.csl.semantics.context.flow import Exit
from appliance.csl.semantics.context.session import Session, Unit
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import Place
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import Const, Value
from appliance.csl.semantics.values.variables import Binding, GlobalVariable
from appliance.csl.sources import Span
from appliance.csl.syntax import tree

MAX_NOTES = 8
STEPS_OF_A_NODE = 2
"""What a part of an expression costs, compared with the turn of an empty loop; as measured."""


def _num_expressions(node: tree.Node) -> int:
    """How many parts the expressions of a statement have; statements within it count apart."""
    count, waiting = 0, tree.children(node)
    while waiting:
        each = waiting.pop()
        if not isinstance(each, tree.Statement):
            count += 1
            waiting += tree.children(each)
    return count


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
        module: "Scope",
        *,
        what: str,
        builder: FunctionBuilder | None = None,
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
        frame.nesting = self.nesting
        frame.locals = self.locals
        frame.undo = self.undo
        return frame

    def aside(self, node: tree.Node) -> "tuple[Frame, FunctionBuilder]":
        """The same place with a builder, whose code is thrown away where there was none."""
        if self.builder is not None:
            return self, self.builder
        frame = Frame(self.module, what=self.what, caller=self.caller, call_node=self.call_node)
        frame.builder = FunctionBuilder("", self.position(node))
        frame.depth = self.depth
        frame.locals = self.locals
        frame.undo = self.undo
        return frame, frame.builder

    @contextmanager
    def only_typed(self, node: tree.Node) -> Iterator["Frame"]:
        """Where an expression has a type alone: code is thrown away, calls compile nothing."""
        aside, builder = self.aside(node)
        before, was_typed = builder.current, builder.is_only_typed
        builder.go_to(builder.new_block())
        builder.is_only_typed = True
        try:
            yield aside
        finally:
            builder.is_only_typed = was_typed
            builder.go_to(before)

    def declare(self, name: str, value: Value | Place) -> None:
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
            limit = session.options.comptime_steps
            self.fail(node, f"more than {limit} steps at compile time; a loop may have no end")

    def earn(self, number: int) -> None:
        """Gives back steps for what a layout has got done, and can do once only for each PE."""
        session = self.module.world.session
        session.steps = max(0, session.steps - number)

    def spend_statement(self, node: tree.Statement) -> None:
        """Counts the work of a statement by its length, but for the statements within it."""
        costs = self.module.world.session.costs
        cost = costs.get(node)
        if cost is None:
            cost = costs[node] = 1 + STEPS_OF_A_NODE * _num_expressions(node)
        self.spend(node, cost)

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

    def check_release(self, node: tree.Node | tuple[int, int], what: str) -> None:
        """Fails if the release of `--sdk-version` does not have something; our libraries may."""
        problem = problem_of(what, self.world.session.options.dialect)
        if problem and not self.module.unit.is_library:
            self.fail(node, problem)

    def deprecated(self, node: tree.Node | tuple[int, int], what: str) -> None:
        """Reports what version 2.10 of the language still takes, but not for long."""
        is_new = self.world.session.options.dialect == "2.10"
        if is_new and not self.module.unit.is_library:
            text = f"deprecated: {what}"
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
        module: Scope | None = outermost.module
        while module is not None and module.importer is not None:
            frame, node = module.importer
            notes.append(Note(f"'{module.unit.source.path}' is imported here", frame.span(node)))
            module = frame.module
        if module is not None and module.origin is not None:
            notes.append(module.origin)
        return tuple(notes)


class Scope(ABC):
    """One import of a file: its own copy of the globals."""

    def __init__(
        self,
        world: "World",
        unit: Unit,
        name: str,
        importer: tuple[Frame, tree.Node] | None,
        origin: Note | None,
    ) -> None:
        self.world = world
        self.unit = unit
        self.name = name
        self.importer = importer
        self.origin = origin
        self.frame = Frame(self, what=f"'{unit.source.path}'")
        self.cache: dict[tree.Expression, Const] = {}
        world.modules.append(self)

    def qualified(self, name: str) -> str:
        """A global's name in the whole program."""
        return f"{self.name}.{name}" if self.name else name

    @abstractmethod
    def lookup(self, name: str, frame: Frame, node: tree.Node) -> Binding:
        """The meaning of a global name, of a predefined one, or an error."""

    @abstractmethod
    def member(self, name: str, frame: Frame, start: int) -> Binding:
        """`module.name`."""

    @abstractmethod
    def constant_variable(self, name: str) -> GlobalVariable:
        """A global constant as a variable, because its address or an element is needed."""


class FunctionValue:
    """A function or task of a module."""

    __slots__ = ("module", "node")

    def __init__(self, module: Scope, node: tree.Function) -> None:
        self.module = module
        self.node = node

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FunctionValue)
            and other.module is self.module
            and other.node is self.node
        )

    def __hash__(self) -> int:
        return hash((id(self.module), id(self.node)))


class World:
    """What both have: names, remembered calls, a count of effects."""

    is_tile = False

    def __init__(self, session: Session) -> None:
        self.session = session
        self.effects = 0
        """Grows with everything that a call does besides giving a value; a call during which
        it stays the same may be remembered."""
        self.calls: dict[object, Value] = {}
        self.modules: list[Scope] = []
        """All that have been imported so far, the main file first."""
        self.pending: list[Scope] = []
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
