"""Open files, and the programs that they belong to, analysed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from appliance.csl.analysis import Analysis, analyse_alone, analyse_program
from appliance.csl.diagnostics import Diagnostic
from appliance.csl.libraries import library_source
from appliance.csl.options import CompileOptions
from appliance.csl.semantics.context.session import Session
from appliance.csl.sources import Source
from appliance.csl.syntax import parse, tree
from appliance.sdk.language_server.commands import Project, configured, nearby
from appliance.sdk.language_server.scopes import Scopes

_STEPS = 3_000_000
"""At compile time: somebody waits."""
_MOST_ERRORS = 200
_MOST_PROJECTS = 4
"""Programs that are tried for one file."""


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file as it is now: its text, its tree, and what its names mean."""

    source: Source
    tree: tree.File
    scopes: Scopes


@dataclass(slots=True)
class Workspace:
    """What the editor has open, and what is known of it.

    Attributes:
        root: Its directory.
        commands: The setting `commands`; empty: found by themselves.
        texts: Of open files by path.
    """

    root: Path
    commands: Sequence[str] = ()
    texts: dict[str, str] = field(default_factory=dict)
    _analyses: dict[str, Analysis] = field(default_factory=dict)
    _projects: dict[str, Project] = field(default_factory=dict)
    _parsed: dict[str, ParsedFile] = field(default_factory=dict)

    def read(self, path: str) -> str | None:
        """Return the text of a file, as the editor has it; None if there is none."""
        if path in self.texts:
            return self.texts[path]
        try:
            return Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def parsed(self, path: str) -> ParsedFile | None:
        """Return a file as it is now; None if there is none."""
        text = library_source(path[1:-1]) if path.startswith("<") else self.read(path)
        if text is None:
            return None
        known = self._parsed.get(path)
        if known is None or known.source.text != text:
            source = Source(path, text, 0)
            found, _ = parse(source)
            known = self._parsed[path] = ParsedFile(source, found, Scopes(found))
        return known

    def resolve(self, path: str, importer: str) -> str | None:
        """Return the file that an import of another one names; None if there is none."""
        project = self._projects.get(importer)
        main = importer if project is None else project.main
        return Session(main, self.options(importer), self).resolve(path, importer)

    def analysis(self, path: str) -> Analysis:
        """Return the latest analysis that a file is in; an empty one before the first."""
        return self._analyses.get(path, _NOTHING)

    def options(self, path: str) -> CompileOptions:
        """Return how a file is compiled."""
        project = self._projects.get(path)
        return CompileOptions() if project is None else project.options

    def analyse(self, path: str) -> Mapping[str, list[Diagnostic]]:
        """Analyse the program of a file; return what is wrong in each file of it.

        Raises:
            UserError: The setting `commands` has something else than commands.
        """
        for project in self._candidates(path):
            found = analyse_program(project.main, _hurried(project.options), self)
            if path in found.units:
                self._keep(found, project)
                return _by_file(found)
        options = next((each.options for each in self._candidates(path)), CompileOptions())
        alone = analyse_alone(path, _hurried(options), self)
        self._keep(alone, Project(main=path, options=options), only=path)
        return {path: _by_file(alone).get(path, [])}

    def _candidates(self, path: str) -> list[Project]:
        named = configured(self.commands, self.root)
        return (named or nearby(Path(path), self.root))[:_MOST_PROJECTS]

    def _keep(self, found: Analysis, project: Project, only: str | None = None) -> None:
        for path in found.units if only is None else (only,):
            self._analyses[path] = found
            self._projects[path] = project


_NOTHING = Analysis()


def _hurried(options: CompileOptions) -> CompileOptions:
    return replace(options, comptime_steps=_STEPS, max_errors=_MOST_ERRORS, max_memory_mib=None)


def _by_file(found: Analysis) -> dict[str, list[Diagnostic]]:
    """Return diagnostics by file; what has no place belongs to the first one."""
    files: dict[str, list[Diagnostic]] = {path: [] for path in found.units if path[:1] != "<"}
    for each in found.diagnostics:
        place = each.span
        if place is None or place.source.path.startswith("<"):
            notes = (note.span for note in each.notes if note.span is not None)
            place = next((span for span in notes if span.source.path in files), None)
        path = place.source.path if place is not None else next(iter(files), "")
        if path in files:
            files[path].append(each)
    return files
