"""Whether code and variables fit a PE's memory, and the table that says what fills it."""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.csl.diagnostics import Diagnostic, Note, Severity
from appliance.csl.program import code as c
from appliance.csl.program import footprint
from appliance.csl.sources import Span

NUM_ROWS = 12
"""Symbols that are shown one by one, the largest first."""

_BYTES_PER_WORD = 2


@dataclass(frozen=True, slots=True)
class Symbol:
    """What takes memory.

    Attributes:
        name: Of the variable or function.
        num_bytes: How much it takes.
        kind: What it is: a type, or `code`.
    """

    name: str
    num_bytes: int
    kind: str


def code_symbols(
    functions: Sequence[c.Function],
    tasks: Sequence[c.TaskBinding],
    loads: Sequence[c.InitialDsrLoad],
) -> list[Symbol]:
    """Return the code size of a class, by function."""
    words = [(function.name, footprint.code_words(function)) for function in functions]
    words += [(f"@{name}", each) for name, each in footprint.shared_words(functions).items()]
    words.append(("start and task table", footprint.start_words(tasks, loads)))
    return [Symbol(name, _BYTES_PER_WORD * each, "code") for name, each in words if each]


def overflow(
    variables: Sequence[Symbol],
    code: Sequence[Symbol],
    *,
    variables_end: int,
    coordinates: tuple[int, int],
    span: Span,
) -> Diagnostic | None:
    """Return the error of a class that does not fit, with its largest symbols; None if it fits.

    Args:
        code: What `code_symbols` says.
        variables_end: The first address behind the variables.
        coordinates: Of one PE that has this code.
        span: Where the error is shown.
    """
    num_code = sum(symbol.num_bytes for symbol in code)
    need = variables_end + num_code
    if need <= c.MEMORY_BYTES:
        return None
    x, y = coordinates
    text = (
        f"PE ({x}, {y}) needs {need} bytes of memory, {variables_end} for variables and about "
        f"{num_code} for code; it has {c.MEMORY_BYTES}, so {need - c.MEMORY_BYTES} are missing"
    )
    return Diagnostic(Severity.ERROR, text, span, tuple(map(Note, _table([*variables, *code]))))


def _table(symbols: Sequence[Symbol]) -> list[str]:
    ordered = sorted(symbols, key=lambda symbol: (-symbol.num_bytes, symbol.name))
    rows = [f"{each.num_bytes:>7} bytes  {each.name}: {each.kind}" for each in ordered[:NUM_ROWS]]
    if rest := ordered[NUM_ROWS:]:
        rows.append(f"{sum(each.num_bytes for each in rest):>7} bytes  {len(rest)} smaller symbols")
    return ["the largest symbols are", *rows]
