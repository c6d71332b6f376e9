"""One compilation: files read once, diagnostics in order, and the limits."""

from posixpath import dirname, isabs, join, normpath

from appliance.csl.diagnostics import (
    CslError,
    Diagnostic,
    Note,
    Severity,
    TooManyErrorsError,
    did_you_mean,
)
from appliance.csl.libraries import library_names, library_source
from appliance.csl.options import CompileOptions, SourceLoader
from appliance.csl.program.types import Position
from appliance.csl.releases import PARTS
from appliance.csl.semantics.values.types import FloatType, Type, half_type
from appliance.csl.sources import Source, Span
from appliance.csl.syntax import parse, tree


class Unit:
    """A parsed file and its declarations by name."""

    def __init__(self, source: Source, file: tree.File) -> None:
        self.source = source
        self.file = file
        self.declarations: dict[str, tree.Declaration | tree.Function] = {}
        self.blocks: list[tree.TopBlock] = []
        self.is_library = source.path.startswith("<")
        self.has_errors = False

    def collect(self) -> list[Diagnostic]:
        """Registers the declarations by name; returns the errors found."""
        found: list[Diagnostic] = []
        for item in self.file.items:
            if isinstance(item, tree.TopBlock):
                self.blocks.append(item)
                continue
            first = self.declarations.setdefault(item.name, item)
            if first is not item:
                found.append(_redefinition(self.source, first, item))
        return found


def _redefinition(
    source: Source,
    first: tree.Declaration | tree.Function,
    second: tree.Declaration | tree.Function,
) -> Diagnostic:
    def name_span(item: tree.Declaration | tree.Function) -> Span:
        return Span(source, item.name_start, item.name_start + len(item.name))

    note = Note("the first definition is here", name_span(first))
    text = f"redefinition of '{second.name}'"
    return Diagnostic(Severity.ERROR, text, name_span(second), (note,))


class Session:
    """What all modules of one compilation share."""

    def __init__(self, main: str, options: CompileOptions, loader: SourceLoader) -> None:
        self.main = main
        self.options = options
        self.loader = loader
        self.units: dict[str, Unit | None] = {}
        self.sources: list[Source] = []
        self.diagnostics: list[Diagnostic] = []
        self.printed: list[str] = []
        self.num_errors = 0
        self.steps = 0
        """Loop turns, calls and what costs as much, at compile time; see `Frame.spend`."""
        self.costs: dict[tree.Statement, int] = {}
        """Of statements that were executed at compile time; see `Frame.spend_statement`."""
        self.address_taken: dict[tree.Function, frozenset[str]] = {}
        self.resolved: dict[tuple[str, str], str] = {}
        self.streams: dict[tuple[str, int, int], None] = {}
        """Host streams: kind, number, color."""
        self.nominal: dict[object, Type] = {}
        self._seen: set[tuple[str, int, int, str]] = set()
        self._positions: dict[tuple[int, int], Position] = {}

    @property
    def is_wse3(self) -> bool:
        """Whether the program is compiled for the third generation."""
        return self.options.architecture == "wse3"

    @property
    def half(self) -> FloatType:
        """The 16-bit float type that exists at run time."""
        return half_type(self.options.fp16_format, at_run_time=True)

    def report(self, diagnostic: Diagnostic) -> None:
        """Keeps a diagnostic, once."""
        key = (
            diagnostic.span.source.path if diagnostic.span else "",
            diagnostic.span.start if diagnostic.span else 0,
            diagnostic.span.end if diagnostic.span else 0,
            diagnostic.text,
        )
        if key in self._seen:
            return
        self._seen.add(key)
        if diagnostic.severity is Severity.WARNING and self.options.warnings_as_errors:
            diagnostic = Diagnostic(
                Severity.ERROR, diagnostic.text, diagnostic.span, diagnostic.notes
            )
        self.diagnostics.append(diagnostic)
        if diagnostic.severity is Severity.ERROR:
            self.num_errors += 1
            if self.num_errors >= self.options.max_errors:
                raise TooManyErrorsError

    def position(self, source: Source, offset: int) -> Position:
        """A place as the program keeps it."""
        key = (source.number, offset)
        found = self._positions.get(key)
        if found is None:
            found = Position(source.number, *source.line_column(offset))
            self._positions[key] = found
        return found

    def resolve(self, path: str, importer: str) -> str | None:
        """The full path that an import of `importer` means; None if there is no such file.

        A file is looked for beside the importing file, then beside the main file, then in the
        import paths; a `<name>` in the import paths, then among the libraries.
        """
        if path.startswith("<") and path.endswith(">"):
            return self._resolve_library(path[1:-1])
        for name in (path, path if path.endswith(".csl") else path + ".csl"):
            for full in self.candidates(name, importer):
                if self.unit(full) is not None:
                    return full
        return None

    def candidates(self, path: str, importer: str) -> tuple[str, ...]:
        """Where a file that `importer` names may be, in the order of the search."""
        if isabs(path):
            return (normpath(path),)
        directories = (dirname(importer), dirname(self.main), *self.options.import_paths)
        return tuple(dict.fromkeys(normpath(join(each, path)) for each in directories))

    def not_found(self, path: str, importer: str) -> str:
        """The text of the error for a file that is in none of these places."""
        if path.startswith("<"):
            part = PARTS.get(path)
            more = f": it is of an earlier release of the SDK; {part.instead}" if part else ""
            near = did_you_mean(path[1:-1], library_names()).replace("'", "'<", 1)
            near = near.replace("'?", ">'?")
            return f"there is no library '{path}'{more or near}"
        looked = self.candidates(path, importer)
        places = f"; looked for {', '.join(looked)}" if len(looked) > 1 else ""
        return f"there is no file '{path}'{places}"

    def _resolve_library(self, name: str) -> str | None:
        file = name if name.endswith(".csl") else name + ".csl"
        for directory in self.options.import_paths:
            full = normpath(join(directory, file))
            if self.unit(full) is not None:
                return full
        full = f"<{name.removesuffix('.csl')}>"
        return full if self.unit(full) is not None else None

    def unit(self, path: str) -> Unit | None:
        """A file, parsed; None if there is none. Syntax errors are reported at the first call."""
        if path not in self.units:
            text = library_source(path[1:-1]) if path.startswith("<") else self.loader.read(path)
            self.units[path] = None if text is None else self._parse(path, text)
        return self.units[path]

    def _parse(self, path: str, text: str) -> Unit:
        source = Source(path, text, len(self.sources))
        self.sources.append(source)
        file, errors = parse(source)
        unit = Unit(source, file)
        errors += unit.collect()
        unit.has_errors = bool(errors)
        for error in errors:
            self.report(error)
        return unit


def guard(session: Session, error: CslError) -> None:
    """Reports an error that ended a statement or declaration, unless it is a silent one."""
    if error.diagnostic.text:
        session.report(error.diagnostic)
