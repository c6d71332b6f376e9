"""Words that the project has given up stay away: from identifiers, comments and documents.

Each stood for an idea for which engineers have a word already (docs/glossary.md). The exceptions
are names that others see, which stay, and ordinary meanings of a word; each is named here.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("appliance", "workers", "csctl", "tests", "benchmarks", "docs")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
RETIRED = {
    "attendant": "background service",
    "desk": "handler, harness",
    "door": "listener, entry point",
    "errand": "effect",
    "is_kept": "committed",
    "front port": "SNI proxy",
    "lane": "queue type, per-job executor",
    "late sum": "deferred sum",
    "leash": "parent-death signal",
    "likeness": "shared programs",
    "neighbour": "peer",
    "refusals": "error status",
    "sequel": "post-commit effect",
    "shelf": "output buffer",
    "surroundings": "context, environment",
    "wish": "request",
}
"""A word that is not used any more, and what is said instead."""
LEGITIMATE = {
    "door": (
        "0022-one-door",  # the file of a decision, whose name stays
        '"door"',  # a column of the audit trail, and its field over REST
        "door: ",
        "door=record.entry_point",
        "row.door",
    ),
    "errand": ("0041-errands-in-lanes",),
    "lane": ("0041-errands-in-lanes",),
    "neighbour": (
        "of neighbours in the format",  # adjacent numbers
        "_neighbours(",  # nodes of a graph
    ),
    "wish": ("RestartWish",),  # a schema of REST
}
"""Parts of lines in which the word is right."""
FABRIC = (
    "appliance/csl",
    "appliance/fabric",
    "appliance/wafer",
    "benchmarks/wafer_model",
    "docs/decisions/0079",
    "tests/support/fabric",
)
IN_SOME_PLACES = {"neighbour": FABRIC}
"""Where a word is right: on the fabric, PEs that a link joins are neighbours."""


def _texts() -> list[Path]:
    found = [ROOT / name for name in DOCUMENTS]
    for top in SOURCES:
        for suffix in ("*.py", "*.md"):
            found += sorted((ROOT / top).rglob(suffix))
    found = [path for path in found if "node_modules" not in path.parts]
    about = (Path(__file__), ROOT / "docs/decisions/0081-words-that-were-given-up-stay-away.md")
    return [
        path
        for path in found
        if path not in about and not path.stem.endswith(("_pb2", "_pb2_grpc"))
    ]


_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _pattern(word: str) -> re.Pattern[str]:
    """Return how a word may be spelt in prose and within identifiers; `is_kept` as a whole only."""
    if "_" in word:
        return re.compile(rf"\b{word}\b")
    plural = "es" if word.endswith("sh") else "s"
    spelt = re.escape(word).replace(r"\ ", "[ _-]")
    return re.compile(rf"(?<![a-z]){spelt}({plural})?(?![a-z])", re.IGNORECASE)


@pytest.fixture(scope="module")
def lines() -> list[tuple[str, str]]:
    """Place and text of every line."""
    return [
        (f"{path.relative_to(ROOT)}:{number}", line.strip())
        for path in _texts()
        for number, line in enumerate(path.read_text().splitlines(), 1)
    ]


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_is_not_used(word: str, lines: list[tuple[str, str]]) -> None:
    pattern, legitimate = _pattern(word), LEGITIMATE.get(word, ())
    found = [
        f"{place}: {line}"
        for place, line in lines
        if pattern.search(_CAMEL_CASE.sub("_", line))
        and not place.startswith(IN_SOME_PLACES.get(word, ()))
        and not any(each in line for each in legitimate)
    ]
    assert found == [], f"say {RETIRED[word]} instead"
