"""Where the CSL compiler makes diagnostics, and which of these places tests have seen reached."""

import ast
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from appliance.csl.diagnostics import Diagnostic
from tests.support import csl

ROOT = Path(__file__).parents[2]
COMPILER = ROOT / "appliance" / "csl"
FRAMES = ("context/frames.py", "syntax/cursor.py")
"""Where the methods are by which others make diagnostics."""
METHODS = ("fail", "warn", "error")
PROBLEMS = ("ArithmeticProblemError", "LiteralError")
"""Raised where a text is known and its place is not."""


class Site(NamedTuple):
    """A call that makes a diagnostic."""

    path: str
    first_line: int
    last_line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.first_line}: {self.text}"


def sites() -> list[Site]:
    """Return every place of the compiler that makes a diagnostic with a text of its own."""
    found: list[Site] = []
    for path in sorted(COMPILER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _makes_diagnostic(node, path):
                name = str(path.relative_to(ROOT))
                text = " ".join(ast.unparse(node).split())
                found.append(Site(name, node.lineno, node.end_lineno or node.lineno, text))
    return found


def _makes_diagnostic(node: ast.Call, path: Path) -> bool:
    is_shared = str(path).endswith(FRAMES)
    if isinstance(node.func, ast.Attribute):
        passes_on = is_shared and any(
            isinstance(item, ast.Name) and item.id == "text" for item in node.args
        )
        return node.func.attr in METHODS and not passes_on
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return name in PROBLEMS or (name == "Diagnostic" and not is_shared and _has_text(node))


def _has_text(node: ast.Call) -> bool:
    """Not one that is made of another diagnostic."""
    return not any(isinstance(item, ast.Attribute) and item.attr == "text" for item in node.args)


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[str, int]]]:
    """Yield the lines that made diagnostics at which `check_error` and its like have looked."""
    reached: set[tuple[str, int]] = set()
    made: dict[int, tuple[Diagnostic, set[tuple[str, int]]]] = {}
    make = Diagnostic.__init__

    def making(self: Diagnostic, *arguments: Any, **fields: Any) -> None:
        make(self, *arguments, **fields)
        made[id(self)] = (self, _lines())

    def seen(found: list[Diagnostic]) -> list[Diagnostic]:
        for item in found:
            reached.update(made[id(item)][1])
        made.clear()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Diagnostic, "__init__", making)
        patch.setattr(csl, "seen", seen)
        yield reached


def _lines() -> set[tuple[str, int]]:
    """Return the lines of the compiler that are being executed, also those of a cause."""
    lines: set[tuple[str, int]] = set()
    frame = sys._getframe(2)
    error = sys.exception()
    trace = error.__traceback__ if error is not None else None
    while trace is not None:
        lines.add((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    while frame is not None and frame.f_back is not None:
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return {
        (str(Path(path).relative_to(ROOT)), line)
        for path, line in lines
        if path.startswith(str(COMPILER))
    }


def is_reached(site: Site, lines: set[tuple[str, int]]) -> bool:
    """Whether one of the lines is a site's."""
    return any((site.path, line) in lines for line in range(site.first_line, site.last_line + 1))


def calls_of(module: ModuleType) -> Iterator[Callable[[], None]]:
    """Yield the tests of wrong programs in a module, with their parameters."""
    for name, function in vars(module).items():
        code = getattr(function, "__code__", None)
        if code is None or not name.startswith("test_"):
            continue
        if not any(each.startswith("check_") and each != "check_right" for each in code.co_names):
            continue
        marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
        rows = [[_named(mark.args[0], row) for row in mark.args[1]] for mark in marks]
        for row in itertools.product(*rows):
            fields = {key: value for each in row for key, value in each.items()}
            wanted = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
            if wanted == {"monkeypatch"}:
                yield lambda function=function: _patched(function)
            elif wanted == set(fields):
                yield lambda function=function, fields=fields: function(**fields)


def _patched(function: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        function(patch)


def _named(names: Any, row: Any) -> dict[str, object]:
    names = names.split(",") if isinstance(names, str) else list(names)
    values = getattr(row, "values", row)
    if callable(values):
        values = row
    names = [name.strip() for name in names]
    return dict(zip(names, [values] if len(names) == 1 else values, strict=True))
