"""The tables of docs/security.md: attacks, promises, entry points, and the tests that they name."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "security.md"
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")

_SKIPPED = "skipped"
_HEADS = ("| attack |", "| promise |", "| entry point |")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a table: an attack, and the tests that make it.

    Attributes:
        attack: Its first column.
        tests: Files below `tests/` and names of tests.
        how: Which test failed; empty if none did.
        is_skipped: Whether none could be run here.
    """

    attack: str
    tests: tuple[tuple[str, str], ...]
    how: str = ""
    is_skipped: bool = False


def rows(section: str = "## Attacks") -> list[Row]:
    """Return the rows of the tables of a section of docs/security.md."""
    text = DOCUMENT.read_text().partition(f"\n{section}\n")[2].partition("\n## ")[0]
    found = []
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith(_HEADS):
            first = line.split(" | ")[0].removeprefix("| ").replace("`", "")
            found.append(Row(attack=first, tests=tuple(NAMED.findall(line))))
    return found


def run_rows() -> Iterator[Row]:
    """Run the tests of all rows, once each, and yield each row with what failed."""
    attacks = rows()
    files = sorted({path for row in attacks for path, _ in row.tests})
    outcomes: dict[tuple[str, str], str] = {}
    for path in files:
        names = {name for row in attacks for file, name in row.tests if file == path}
        outcomes |= _outcomes(path, names)
    for row in attacks:
        told = {test: outcomes[test] for test in row.tests}
        failed = [f"{test[1]} {what}" for test, what in told.items() if what not in ("", _SKIPPED)]
        is_skipped = set(told.values()) == {_SKIPPED}
        yield replace(row, how=", ".join(failed), is_skipped=is_skipped)


def _outcomes(path: str, names: set[str]) -> dict[tuple[str, str], str]:
    """Run some tests of a file; return what is wrong with each, empty if nothing is."""
    with TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        chosen = [f"tests/{path}::{name}" for name in sorted(names)]
        command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", *chosen]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.exists():
            return {(path, name): f"did not run: {done.stdout[-200:]}" for name in names}
        cases = list(ET.parse(report).iter("testcase"))
    found = {}
    for name in names:
        mine = [case for case in cases if case.get("name", "").split("[")[0] == name]
        found[path, name] = _outcome(mine)
    return found


def _outcome(cases: list[ET.Element]) -> str:
    if any(case.find(kind) is not None for case in cases for kind in ("failure", "error")):
        return "failed"
    if not cases:
        return "did not run"
    return _SKIPPED if all(case.find("skipped") is not None for case in cases) else ""
