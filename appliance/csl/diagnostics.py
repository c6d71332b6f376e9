"""Errors and warnings as the user reads them.

A diagnostic is one line `file:line:column: error: text`, the source line with a caret under
the place, and notes that say how the compiler came there: the chain of imports, and of
function calls that are evaluated at compile time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from appliance.csl.sources import Span


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Note:
    """A further line; without a place if it belongs to none."""

    text: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning."""

    severity: Severity
    text: str
    span: Span | None
    notes: tuple[Note, ...] = ()

    @property
    def line(self) -> int:
        """Line from 1 on; 0 without a place."""
        return self.span.source.line_column(self.span.start)[0] if self.span else 0

    @property
    def column(self) -> int:
        """Column from 1 on; 0 without a place."""
        return self.span.source.line_column(self.span.start)[1] if self.span else 0

    def render(self) -> str:
        """The diagnostic as text of several lines."""
        lines = _place_and_text(self.severity.value, self.text, self.span)
        for note in self.notes:
            lines += _place_and_text("note", note.text, note.span)
        return "\n".join(lines)


class CslError(Exception):
    """Ends the analysis of a statement or declaration; caught where work can go on."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.text)
        self.diagnostic = diagnostic


class TooManyErrorsError(Exception):
    """The limit of errors is reached; the compilation ends."""


def _place_and_text(kind: str, text: str, span: Span | None) -> list[str]:
    if span is None:
        return [f"{kind}: {text}"]
    line, column = span.source.line_column(span.start)
    code = span.source.line_text(line)
    margin = "".join("\t" if character == "\t" else " " for character in code[: column - 1])
    length = max(1, min(span.end - span.start, len(code) - column + 1))
    return [
        f"{span.source.path}:{line}:{column}: {kind}: {text}",
        f"    {code}",
        f"    {margin}^{'~' * (length - 1)}",
    ]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known name, or nothing if none is near."""
    limit = max(1, len(name) // 3)
    best: tuple[int, str] | None = None
    for candidate in sorted(set(known)):
        if abs(len(candidate) - len(name)) > limit or candidate == name:
            continue
        distance = _distance(name.lower(), candidate.lower())
        if distance <= limit and (best is None or distance < best[0]):
            best = (distance, candidate)
    return f"; did you mean '{best[1]}'?" if best else ""


def _distance(a: str, b: str) -> int:
    """Edits (insert, delete, replace, swap neighbours) from one word to the other."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        before, above, row = row, before, [i]
        for j, other in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            swapped = i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other
            row.append(min(cost, above[j - 2] + 1) if swapped else cost)
    return row[-1]


_FOREIGN_NAMES = {
    "int": "i32", "short": "i16", "long": "i64", "unsigned": "u32", "char": "u8", "byte": "u8",
    "float": "f32", "double": "f32", "half": "f16", "float32": "f32", "float16": "f16",
    **{f"{kind}int{bits}{end}": f"{kind or 'i'}{bits}" for kind in ("", "u")
       for bits in (8, 16, 32, 64) for end in ("", "_t")},
    "size_t": "u16", "boolean": "bool", "_Bool": "bool", "string": "comptime_string",
}  # fmt: skip
"""Types of other languages, and what CSL calls them."""


def other_name(name: str, known: Iterable[str]) -> str:
    """What to write instead of an unknown name: a type's name here, or the nearest known one."""
    instead = _FOREIGN_NAMES.get(name)
    return f"; CSL calls it '{instead}'" if instead else did_you_mean(name, known)
