"""What an editor wants of a program: its diagnostics, and what each expression is.

The compiler itself evaluates the program; here somebody looks on and keeps the type and value of
each expression. A file whose program is unknown is compiled alone: params without a value are then
unknown, and so is whatever depends on them, which is no error.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from appliance.csl.compiler import compile_session, deep_recursion, guarded
from appliance.csl.diagnostics import CslError, Diagnostic
from appliance.csl.options import CompileOptions, SourceLoader
from appliance.csl.semantics.context.frames import Frame, FunctionValue
from appliance.csl.semantics.context.session import Session, Unit, guard
from appliance.csl.semantics.expressions.evaluate import HANDLERS, Handler
from appliance.csl.semantics.expressions.modules import Module
from appliance.csl.semantics.expressions.places import PLACES
from appliance.csl.semantics.results.tile import TileWorld, run_comptime_blocks, run_modules
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import Fixed, Place
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import POISON, Const, Value
from appliance.csl.syntax import tree

MOST_MEANINGS = 4
"""Of one expression: PEs differ in their params, and turns of a loop in its variable."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an expression is at one place of the program.

    Attributes:
        value: Its value; None if it is computed at run time.
        pe: Column and row of a PE that has this code; None in a layout.
    """

    type: Type
    value: Const | None
    pe: tuple[int, int] | None


Spot = tuple[str, int, int]
"""File, and where an expression starts and ends in it."""


@dataclass(slots=True)
class Analysis:
    """A program as it was analysed.

    Attributes:
        diagnostics: Errors and warnings of all its files.
        units: Its files by path, libraries too.
        meanings: What each expression that was evaluated is.
    """

    diagnostics: tuple[Diagnostic, ...] = ()
    units: Mapping[str, Unit] = field(default_factory=dict)
    meanings: dict[Spot, list[Meaning]] = field(default_factory=dict)

    def see(self, node: tree.Expression, frame: Frame, type_: Type, value: object) -> None:
        """Keep what an expression is."""
        if type_ is t.POISON:
            return
        spot = (frame.module.unit.source.path, node.start, node.end)
        found = self.meanings.setdefault(spot, [])
        if len(found) < MOST_MEANINGS:
            known = value if isinstance(value, Const) else None
            pe = frame.world.coordinates if isinstance(frame.world, TileWorld) else None
            meaning = Meaning(type_, known, pe)
            if meaning not in found:
                found.append(meaning)


def analyse_program(main: str, options: CompileOptions, loader: SourceLoader) -> Analysis:
    """Analyse the program whose layout is in the file `main`."""
    analysis = Analysis()
    session = Session(main, options, loader)
    with _watched(analysis):
        compile_session(session)
    return _finished(analysis, session)


def analyse_alone(path: str, options: CompileOptions, loader: SourceLoader) -> Analysis:
    """Analyse a file without its program."""
    analysis = Analysis()
    session = Session(path, options, loader)
    with _watched(analysis), deep_recursion():
        guarded(session, partial(_compile_alone, session))
    return _finished(analysis, session)


def _finished(analysis: Analysis, session: Session) -> Analysis:
    analysis.diagnostics = tuple(session.diagnostics)
    analysis.units = {path: unit for path, unit in session.units.items() if unit is not None}
    return analysis


def _compile_alone(session: Session) -> None:
    unit = session.unit(session.main)
    if unit is None or unit.has_errors:
        return
    unknown = {
        name: POISON
        for name, item in unit.declarations.items()
        if isinstance(item, tree.Declaration) and item.kind == "param" and item.value is None
    }
    world = TileWorld(session, (0, 0), (1, 1), is_alone=True)
    root = Module(world, unit, unknown, name="")
    if any(block.kind == "layout" for block in unit.blocks):
        world.pending.clear()
        return  # without its params nothing of a layout is known
    world.pending.append(root)
    run_modules(world, run_comptime_blocks)
    world.compile_pending()
    if unit.blocks or any(_is_task(item) for item in unit.declarations.values()):
        _ask_for_rest(root, world)
    world.compile_pending()


def _is_task(item: tree.Declaration | tree.Function) -> bool:
    return isinstance(item, tree.Function) and item.is_task


def _ask_for_rest(root: Module, world: TileWorld) -> None:
    """Have globals evaluated and functions compiled that nothing in the file uses.

    What something uses is reached from there, perhaps at compile time only.
    """
    used: set[str] = set()
    for item in root.unit.file.items:
        _collect_used(item, used)
    for name, item in root.unit.declarations.items():
        if name in used:
            continue
        try:
            binding = root.lookup(name, root.frame, item)
            if isinstance(item, tree.Function) and _stands_alone(item):
                assert isinstance(binding, Const)
                if isinstance(binding.value, FunctionValue):
                    world.function_index(binding.value, root.frame, item)
        except CslError as error:
            guard(world.session, error)


def _collect_used(node: tree.Node, used: set[str]) -> None:
    """Collect the names in a node, but those that are only exported or bound there."""
    if isinstance(node, tree.Name):
        used.add(node.name)
    is_root = isinstance(node, tree.BuiltinCall) and node.name in _ROOTS
    for child in tree.children(node):
        if not (is_root and isinstance(child, tree.Name)):
            _collect_used(child, used)


_ROOTS = frozenset(("export_symbol", "bind_data_task", "bind_local_task", "bind_control_task"))
"""What makes a function part of a program."""


def _stands_alone(item: tree.Function) -> bool:
    is_generic = any(each.type is None or each.is_comptime for each in item.parameters)
    names = {each.name for each in item.parameters}
    types = [each.type for each in item.parameters if each.type is not None]
    depends = any(not tree.names_of(each).isdisjoint(names) for each in (*types, item.result))
    return not (is_generic or depends or item.is_inline or item.body is None)


@contextmanager
def _watched(analysis: Analysis) -> Iterator[None]:
    """Have an analysis see everything that this process evaluates meanwhile."""
    handlers, places = dict(HANDLERS), dict(PLACES)
    HANDLERS.update({kind: _seeing(each, analysis) for kind, each in handlers.items()})
    PLACES.update({kind: _seeing_place(each, analysis) for kind, each in places.items()})
    try:
        yield
    finally:
        HANDLERS.update(handlers)
        PLACES.update(places)


def _seeing(handler: Handler, analysis: Analysis) -> Handler:
    def see(node: tree.Expression, frame: Frame, expected: Type | None) -> Value:
        value = handler(node, frame, expected)
        analysis.see(node, frame, value.type, value)
        return value

    return see


def _seeing_place(
    find: Callable[[tree.Expression, Frame], Place], analysis: Analysis
) -> Callable[[tree.Expression, Frame], Place]:
    def see(node: tree.Expression, frame: Frame) -> Place:
        place = find(node, frame)
        analysis.see(node, frame, place.type, place.value if isinstance(place, Fixed) else None)
        return place

    return see
