"""The table as Markdown, for docs/compatibility.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.modelzoo.verdicts import Verdict

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
HEAD = (
    "| case | losses, first to last | systems | from CPU | exact | ms a step | verdict |",
    "|---|---|---|---|---|---|---|",
)
PROCESSOR = Path("/proc/cpuinfo")


def write(document: Path, verdicts: Mapping[str, Verdict], cores: int) -> None:
    """Replace what lies between the two marks of a document."""
    text = document.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    table = "\n".join((f"Processor: {processor()}, {cores} cores.", "", *rows(verdicts)))
    document.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


def rows(verdicts: Mapping[str, Verdict]) -> list[str]:
    """Return head and one row for each case that has run."""
    return [*HEAD, *(row(name, v) for name, v in verdicts.items() if v.word != "missing")]


def row(name: str, verdict: Verdict) -> str:
    """Return a case's row."""
    if verdict.message:
        message = verdict.message.partition(" at /")[0].replace("|", "/")
        return f"| {name} | {message} | | | | | {verdict.word} |"
    losses = f"{verdict.losses[0]:.5f} to {verdict.losses[-1]:.5f}"
    if name.startswith("generate/"):
        losses = "tokens"
    exact = "" if verdict.exact is None else f"{verdict.exact:.1e}"
    milliseconds = f"{verdict.step_seconds * 1000:.0f}"
    difference = f"{verdict.difference:.1e}"
    systems = ", ".join(map(str, verdict.systems))
    cells = (name, losses, systems, difference, exact, milliseconds, verdict.word)
    return f"| {' | '.join(cells)} |"


def processor() -> str:
    """Return the processor's name."""
    lines = PROCESSOR.read_text().splitlines() if PROCESSOR.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")
