"""`compile_program`: compiles source files with options to a program or to diagnostics."""

import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from appliance.csl import builtins
from appliance.csl.diagnostics import (
    CslError,
    Diagnostic,
    Note,
    Severity,
    TooManyErrorsError,
)
from appliance.csl.options import CompileOptions, SourceLoader
from appliance.csl.program.code import CodeClass
from appliance.csl.program.placement import (
    NO_CODE,
    ColorConfiguration,
    Grid,
    HostStream,
    Program,
    RoutingClass,
)
from appliance.csl.semantics.context.frames import Frame, Scope
from appliance.csl.semantics.context.session import Session, guard
from appliance.csl.semantics.context.texts import text_of
from appliance.csl.semantics.expressions import initializers, operators, type_expressions
from appliance.csl.semantics.expressions.modules import Module
from appliance.csl.semantics.results.layout import NOT_SET, LayoutWorld
from appliance.csl.semantics.results.queues import initialise_queues
from appliance.csl.semantics.results.tile import TileWorld, run_comptime_blocks, run_modules
from appliance.csl.semantics.statements import calls, control, loops
from appliance.csl.semantics.statements.statements import run_block
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.values import Const
from appliance.csl.sources import Span
from appliance.csl.syntax import tree

REGISTERED = (builtins, calls, control, initializers, loops, operators, type_expressions)
"""Importing these makes the engine know every kind of node; nothing else refers to some."""

RECURSION_LIMIT = 40_000
NUM_FILTERS_WSE2 = 6
"""Filters of a PE."""

_Result = TypeVar("_Result")

Colors = dict[int, tuple[ColorConfiguration, Span]]
"""Configured colors, and where they are configured."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """The result of a compilation; `program` is None if there was an error."""

    program: Program | None
    diagnostics: tuple[Diagnostic, ...]
    printed: tuple[str, ...]
    """Lines of `@comptime_print`."""

    def render(self) -> str:
        """The diagnostics as text."""
        return "\n".join(diagnostic.render() for diagnostic in self.diagnostics)


def compile_program(main: str, options: CompileOptions, loader: SourceLoader) -> Compilation:
    """Compiles the program whose layout is in the file `main`.

    Never fails for what a source says: errors are diagnostics of the result.
    """
    return compile_session(Session(main, options, loader))


def compile_session(session: Session) -> Compilation:
    """Compiles the program of a session that has begun with nothing."""
    with deep_recursion():
        program = guarded(session, partial(_compile, session))
    has_error = any(found.severity is Severity.ERROR for found in session.diagnostics)
    return Compilation(
        None if has_error else program, tuple(session.diagnostics), tuple(session.printed)
    )


def guarded(session: Session, work: Callable[[], _Result | None]) -> _Result | None:
    """Does a part of a compilation; None after an error that ends it, which is reported."""
    try:
        return work()
    except CslError as error:
        _guard_last(session, error)
    except TooManyErrorsError:
        pass
    except MemoryError:
        _end_without_memory(session)
    except RecursionError:
        text = "the program nests too deeply at compile time"
        session.diagnostics.append(Diagnostic(Severity.ERROR, text, None))
    return None


def _end_without_memory(session: Session) -> None:
    session.units.clear()
    session.printed.clear()
    limit = session.options.max_memory_mib
    allowed = "there is" if limit is None else f"{limit} MiB; --max-memory-mib gives it more"
    text = f"the program needs more memory at compile time than {allowed}"
    session.diagnostics.append(Diagnostic(Severity.ERROR, text, None))


def _guard_last(session: Session, error: CslError) -> None:
    try:
        guard(session, error)
    except TooManyErrorsError:
        return


@contextmanager
def deep_recursion() -> Iterator[None]:
    """The engine recurses with the source's nesting, which its own limits bound."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _compile(session: Session) -> Program | None:
    unit = session.unit(session.main)
    if unit is None:
        session.report(Diagnostic(Severity.ERROR, f"there is no file '{session.main}'", None))
        return None
    if unit.has_errors:
        return None
    layout = LayoutWorld(session)
    given = (*session.options.parameters, *session.options.colors)
    arguments = {name: Const(t.COMPTIME_INT, value) for name, value in session.options.parameters}
    arguments |= {name: Const(t.COLOR, value) for name, value in session.options.colors}
    module = Module(layout, unit, _fitted(arguments, unit.declarations), name="")
    if not _run_layout(module, layout):
        return None
    for name, _ in given:
        if name not in unit.declarations:
            text = f"'{session.main}' has no param '{name}' (--params)"
            session.report(Diagnostic(Severity.WARNING, text, None))
    classes = [_compile_class(session, layout, number) for number in range(len(layout.codes))]
    if session.num_errors:
        return None
    finished = [each for each in classes if each is not None]
    return _program(session, layout, [code for code, _ in finished], [c for _, c in finished])


def _fitted(
    arguments: dict[str, Const], declarations: dict[str, tree.Declaration | tree.Function]
) -> dict[str, Const]:
    """Command-line values; a number given to a param of type `color` is a color."""
    for name, value in arguments.items():
        node = declarations.get(name)
        if not isinstance(node, tree.Declaration) or not isinstance(node.type, tree.Name):
            continue
        if node.type.name == "color" and value.type is t.COMPTIME_INT:
            arguments[name] = Const(t.COLOR, value.value)
        elif node.type.name != "color" and value.type is t.COLOR:
            arguments[name] = Const(t.COMPTIME_INT, value.value)
        elif node.type.name == "bool" and value.type is t.COMPTIME_INT:
            arguments[name] = Const(t.BOOL, value.value != 0)
    return arguments


def _run_layout(module: Module, layout: LayoutWorld) -> bool:
    """Runs comptime blocks and the layout block; False if there is no use in going on."""
    session = layout.session
    blocks = [block for block in module.unit.blocks if block.kind == "layout"]
    if not blocks:
        text = f"'{session.main}' has no layout block"
        session.report(Diagnostic(Severity.ERROR, text, Span(module.unit.source, 0, 0)))
        return False
    if len(blocks) > 1:
        text = "a file has one layout block"
        span = Span(module.unit.source, blocks[1].start, blocks[1].start + len("layout"))
        session.report(Diagnostic(Severity.ERROR, text, span))
    try:
        run_comptime_blocks(module)
        run_modules(layout, run_comptime_blocks)
        run_block(blocks[0].body, Frame(module, what="the layout block"))
        run_modules(layout, run_comptime_blocks)
        _check_layout(module, layout, blocks[0])
    except CslError as error:
        guard(session, error)
    return not session.num_errors


def _check_layout(module: Module, layout: LayoutWorld, block: tree.TopBlock) -> None:
    """Every PE has code, and the rectangle fits the fabric."""
    where = tree.Node(block.start, block.start + len("layout"))
    frame = module.frame
    if layout.rectangle is None:
        frame.fail(where, "the layout never calls @set_rectangle")
    missing = [at for at, code in enumerate(layout.code_of) if code == NOT_SET]
    if missing:
        y, x = divmod(missing[0], layout.width)
        more = f", nor have {len(missing) - 1} others" if len(missing) > 1 else ""
        frame.fail(where, f"PE ({x}, {y}) has no code{more}; call @set_tile_code for each")
    _check_fabric(layout)


def _check_fabric(layout: LayoutWorld) -> None:
    options = layout.session.options
    if options.fabric_dims is None:
        return
    west, east = options.width_west_buf, options.width_east_buf
    wide = (layout.width + 7 + west + east, layout.height + 2)
    x, y = options.fabric_offsets
    end = (x + layout.width, y + layout.height)
    if options.memcpy and not _holds(options.fabric_dims, wide):
        _fail_fabric(layout, f"at least {wide[0]}-by-{wide[1]} with memcpy", options.fabric_dims)
    elif not _holds(options.fabric_dims, end):
        _fail_fabric(layout, f"at least {end[0]}-by-{end[1]}", options.fabric_dims)
    if options.memcpy and (x < 4 + west or y < 1):
        text = f"--fabric-offsets={x},{y} leave memcpy no room; they must be at least {4 + west},1"
        layout.session.report(Diagnostic(Severity.ERROR, text, None))


def _holds(dims: tuple[int, int], need: tuple[int, int]) -> bool:
    return dims[0] >= need[0] and dims[1] >= need[1]


def _fail_fabric(layout: LayoutWorld, need: str, dims: tuple[int, int]) -> None:
    note = Note(f"the rectangle is {layout.width} by {layout.height} PEs", layout.rectangle)
    text = f"Fabric dimension must be {need}, got {dims[0]}-by-{dims[1]}"
    layout.session.report(Diagnostic(Severity.ERROR, text, None, (note,)))


def _compile_class(
    session: Session, layout: LayoutWorld, number: int
) -> tuple[CodeClass, Colors] | None:
    """The code of one class, and the colors that it configures itself."""
    file, arguments, origin = layout.codes[number]
    if file is None:
        return None
    unit = session.unit(file)
    if unit is None or unit.has_errors:
        return None
    world = TileWorld(session, layout.first_tile[number], (layout.width, layout.height))
    world.declared_exports = layout.export_types
    root = Module(world, unit, arguments, name="", origin=origin)
    _warn_unknown(root, arguments, origin)
    world.pending.append(root)

    def run(module: Scope) -> None:
        world.fifo_registers.note(module)
        run_comptime_blocks(module)

    run_modules(world, run)
    world.compile_pending()
    run_modules(world, run)
    world.compile_pending()
    world.fifo_registers.evaluate()
    world.compile_pending()
    initialise_queues(world)
    texts = [f".{name} = {text_of(value)}" for name, value in arguments.items()]
    code = world.finish(file, f".{{ {', '.join(texts)} }}", root)
    return code, world.colors


def _warn_unknown(root: Module, arguments: dict[str, Const], origin: Note) -> None:
    for name in arguments:
        declared = root.unit.declarations.get(name)
        if not isinstance(declared, tree.Declaration) or declared.kind != "param":
            text = f"'{root.unit.source.path}' has no param '{name}'"
            root.world.session.report(Diagnostic(Severity.WARNING, text, origin.span))


def _program(
    session: Session,
    layout: LayoutWorld,
    classes: list[CodeClass],
    local_colors: list[Colors],
) -> Program:
    options = session.options
    numbers: dict[int, int] = {}
    for number, (file, _, _) in enumerate(layout.codes):
        numbers[number] = NO_CODE if file is None else len(set(numbers.values()) - {NO_CODE})
    code = array("I", [numbers[number] for number in layout.code_of])
    routing, routings = _routings(layout, code, local_colors)
    if sys.byteorder == "big":
        code.byteswap()
        routing.byteswap()
    width, height = layout.width, layout.height
    x, y = options.fabric_offsets
    return Program(
        architecture=options.architecture,
        dialect=options.dialect,
        fabric=options.fabric_dims or (x + width, y + height),
        offsets=options.fabric_offsets,
        memcpy=options.memcpy,
        channels=options.channels,
        width_west_buf=options.width_west_buf,
        width_east_buf=options.width_east_buf,
        fp16_format=options.fp16_format,
        parameters=options.parameters,
        colors=options.colors,
        files=tuple(source.path for source in session.sources),
        grid=Grid(width, height, code.tobytes(), routing.tobytes()),
        classes=tuple(classes),
        routings=tuple(routings),
        symbols=tuple(layout.exports.values()),
        streams=tuple(HostStream(*stream) for stream in session.streams),
    )


def _routings(
    layout: LayoutWorld, code: "array[int]", local_colors: list[Colors]
) -> tuple["array[int]", list[RoutingClass]]:
    """The routing class of each PE: equal configurations are one class."""
    colors = sorted(layout.routes)
    columns = [layout.routes[color] for color in colors]
    known: dict[tuple[int, ...], int] = {}
    routings: list[RoutingClass] = []
    routing = array("I", [0]) * len(code)
    own = [bool(found) for found in local_colors]
    for at, key in enumerate(zip(code, *columns, strict=True)):
        if key[0] == NO_CODE or not own[key[0]]:
            key = (NO_CODE, *key[1:])  # noqa: PLW2901 - code without colors of its own
        number = known.get(key)
        if number is None:
            number = known[key] = len(routings)
            routings.append(_routing_class(layout, at, key, local_colors))
        routing[at] = number
    return routing, routings


def _routing_class(
    layout: LayoutWorld,
    at: int,
    key: tuple[int, ...],
    local_colors: list[Colors],
) -> RoutingClass:
    found: Colors = {}
    y, x = divmod(at, layout.width)
    for number in key[1:]:
        configured = layout.configurations[number]
        if configured is not None:
            found[configured[0].color] = configured
    if key[0] != NO_CODE:
        for color, (configuration, span) in local_colors[key[0]].items():
            if color in found:
                text = f"color {color} of PE ({x}, {y}) is configured by the layout and by its code"
                note = Note("the layout does so here", found[color][1])
                layout.session.report(Diagnostic(Severity.ERROR, text, span, (note,)))
            found[color] = (configuration, span)
    _check_filters(layout.session, (x, y), found)
    return RoutingClass(tuple(found[color][0] for color in sorted(found)))


def _check_filters(session: Session, pe: tuple[int, int], colors: Colors) -> None:
    """A PE of WSE-2 has a few filters, whatever colors they are for."""
    filtered = [color for color in sorted(colors) if colors[color][0].filter is not None]
    if not session.is_wse3 and len(filtered) > NUM_FILTERS_WSE2:
        text = (
            f"PE ({pe[0]}, {pe[1]}) has {len(filtered)} filters, on colors "
            f"{', '.join(map(str, filtered))}; a PE of wse2 has {NUM_FILTERS_WSE2}"
        )
        span = colors[filtered[NUM_FILTERS_WSE2]][1]
        session.report(Diagnostic(Severity.ERROR, text, span))
