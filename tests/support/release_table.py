"""Write which tests of the real client each release of it has passed, into docs/compatibility.md.

`make test-releases` runs the tests and then this:

    python -m tests.support.release_table build/releases docs/compatibility.md

A cell says how many tests of a file passed and how many did not, and is empty if none has run. What
ran before and not again stays.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

BEGIN, END = "<!-- releases: begin -->", "<!-- releases: end -->"
PREFIX = "tests.conformance.test_real_"

_COUNTS = re.compile(r"(\d+) pass(?:, (\d+) fail)?")

Results = Mapping[str, Mapping[str, tuple[int, int]]]
"""How many tests passed and did not, by release and file of tests."""


def read(folder: Path) -> Results:
    """Return what ran; of a file that ran several times, the last time.

    Args:
        folder: Has a folder for each release, with pytest's results as JUnit's XML.
    """
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for report in sorted(folder.glob("*/*.xml"), key=lambda path: path.stat().st_mtime):
        found.setdefault(report.parent.name, {}).update(_of_report(report))
    return found


def _of_report(report: Path) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        file = case.get("classname", "")
        if not file.startswith(PREFIX) or case.find("skipped") is not None:
            continue
        name = file.removeprefix(PREFIX).replace("_", " ")
        passed, failed = counts.get(name, (0, 0))
        has_failed = case.find("failure") is not None or case.find("error") is not None
        counts[name] = (passed, failed + 1) if has_failed else (passed + 1, failed)
    return counts


def kept(document: Path) -> Results:
    """Return what the table in a document says."""
    _, _, rest = document.read_text().partition(BEGIN)
    head, _, *rows = rest.partition(END)[0].strip().splitlines() or ["", ""]
    releases = [cell.strip() for cell in head.split("|")[2:-1]]
    found: dict[str, dict[str, tuple[int, int]]] = {release: {} for release in releases}
    for row in rows:
        file, *cells = (cell.strip() for cell in row.split("|")[1:-1])
        for release, cell in zip(releases, cells, strict=True):
            if counts := _COUNTS.fullmatch(cell):
                found[release][file] = (int(counts[1]), int(counts[2] or 0))
    return found


def merged(before: Results, after: Results) -> Results:
    """Return the results of both, of a file that is in both the later one."""
    return {
        release: {**before.get(release, {}), **after.get(release, {})}
        for release in (*before, *after)
    }


def table(results: Results) -> str:
    """Return the table, releases in their order as columns."""
    releases = sorted(results, key=lambda release: [int(part) for part in release.split(".")])
    files = sorted({file for found in results.values() for file in found})
    lines = [f"| tests of | {' | '.join(releases)} |", f"|---|{'---|' * len(releases)}"]
    for file in files:
        cells = [_cell(results[release].get(file)) for release in releases]
        lines.append(f"| {file} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(counts: tuple[int, int] | None) -> str:
    if counts is None:
        return ""
    passed, failed = counts
    return f"{passed} pass, {failed} fail" if failed else f"{passed} pass"


def write(document: Path, text: str) -> None:
    """Put a table between the marks of a document.

    Raises:
        ValueError: The document has no such marks.
    """
    before, found, rest = document.read_text().partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise ValueError(f"{document} has no {BEGIN} and {END} to write between.")
    document.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    page = Path(sys.argv[2])
    write(page, table(merged(kept(page), read(Path(sys.argv[1])))))
