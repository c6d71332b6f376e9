"""Tables of text: a column is a header and a function from an object to its cell.

The same columns serve every number of rows; a wide column shows with `-o wide` only. Columns are
two blanks apart and trailing blanks are cut, so that a transcript can be compared as text.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

NOT_APPLICABLE = "n/a"

_GAP = "  "
_RESET = "\x1b[0m"
_GREEN, _RED, _YELLOW, _CYAN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[36m"
_COLOURED_HEADERS = frozenset({"PHASE", "STATE"})
_COLOURS: Mapping[str, str] = {
    "RUNNING": _GREEN,
    "SUCCEEDED": _GREEN,
    "ok": _GREEN,
    "FAILED": _RED,
    "FAILING": _RED,
    "error": _RED,
    "CANCELLED": _YELLOW,
    "degraded": _YELLOW,
    "QUEUED": _CYAN,
    "SCHEDULED": _CYAN,
    "INITIALIZING": _CYAN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[T]):
    """One column of a table.

    Attributes:
        header: Capitals; a public name that users' scripts look for.
        cell: Text of one object; empty when it has none.
        is_wide: Shown with `-o wide` only.
    """

    header: str
    cell: Callable[[T], str]
    is_wide: bool = False


def render(
    columns: Sequence[Column[T]], items: Iterable[T], *, wide: bool = False, coloured: bool = False
) -> str:
    """Return the table with its header line, without a final newline."""
    shown = [column for column in columns if wide or not column.is_wide]
    headers = [column.header for column in shown]
    rows = [[_printable(column.cell(item)) for column in shown] for item in items]
    widths = [max(len(row[at]) for row in (headers, *rows)) for at in range(len(shown))]
    lines = [_line(headers, widths)]
    painted = frozenset(
        at for at, header in enumerate(headers) if coloured and header in _COLOURED_HEADERS
    )
    lines += [_line(row, widths, painted=painted) for row in rows]
    return "\n".join(lines)


def _line(
    cells: Sequence[str], widths: Sequence[int], *, painted: frozenset[int] = frozenset()
) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    for at in painted & {at for at, cell in enumerate(cells) if cell in _COLOURS}:
        # The colour ends before the padding: escapes have no width, and trailing blanks can be cut.
        blanks = padded[at][len(cells[at]) :]
        padded[at] = f"{_COLOURS[cells[at]]}{cells[at]}{_RESET}{blanks}"
    return _GAP.join(padded).rstrip()


def _printable(text: str) -> str:
    """Keep control characters of foreign text (labels, notes) away from the user's terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in text)
