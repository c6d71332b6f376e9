"""Words that the project has given up stay away: from identifiers, comments and documents.

Each stood for an idea for which engineers have a word already (docs/glossary.md). The exceptions
are names that others see, which stay, and ordinary meanings of a word; each is named here.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (
    *("appliance", "workers", "csctl", "protos", "tests", "benchmarks", "examples", "docs"),
    *("deploy", "helm"),
)
SUFFIXES = (
    *(".py", ".md", ".proto", ".sh", ".yaml", ".tpl", ".toml"),
    *(".c", ".h", ".ts", ".tsx", ".css", ".html"),
)
DOCUMENTS = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
    *("Makefile", "pyproject.toml", ".ci/run", "docker-compose.yml"),
)
RETIRED = {
    "attendant": "background service",
    "company": "group-commit delay",
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
        '"door"',  # a column of the audit trail, and its field over REST
        "door: ",
        "door=record.entry_point",
        "row.door",
        "{entry.door}",
        "door: string;",
        "/** Door */",
    ),
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
IN_SOME_PLACES = {
    "desk": ("appliance/dashboard/web/src/pages/Queue.tsx", "appliance/dashboard/web/src/parts"),
    "neighbour": FABRIC,
    "lane": ("appliance/dashboard/web/src/fabric", "appliance/dashboard/web/src/theme.css"),
}
"""Where a word is right: on the fabric, PEs that a link joins are neighbours; the rows of a drawn
timeline are lanes; and a screen is a phone's, a tablet's or that of a desk."""


def _texts() -> list[Path]:
    found = [ROOT / name for name in DOCUMENTS]
    for top in SOURCES:
        found += sorted(path for path in (ROOT / top).rglob("*.*") if path.suffix in SUFFIXES)
    built = {"node_modules", "static"}
    found = [path for path in found if built.isdisjoint(path.parts)]
    about = (Path(__file__), ROOT / "docs/decisions/0081-a-test-keeps-retired-words-out.md")
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


class Text(NamedTuple):
    """A file: all of it in small letters, and place, line and the line's words apart."""

    lowered: str
    lines: list[tuple[str, str, str]]


@pytest.fixture(scope="module")
def texts() -> list[Text]:
    """Every file, with the words of identifiers apart."""
    found = []
    for path in _texts():
        text = path.read_text()
        lines = [
            (f"{path.relative_to(ROOT)}:{number}", line.strip(), _CAMEL_CASE.sub("_", line.strip()))
            for number, line in enumerate(text.splitlines(), 1)
        ]
        found.append(Text(text.lower(), lines))
    return found


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_is_not_used(word: str, texts: list[Text]) -> None:
    pattern, legitimate = _pattern(word), LEGITIMATE.get(word, ())
    first = word.partition(" ")[0]
    found = [
        f"{place}: {line}"
        for text in texts
        if first in text.lowered  # which leaves few to be looked at by line
        for place, line, words in text.lines
        if pattern.search(words)
        and not place.startswith(IN_SOME_PLACES.get(word, ()))
        and not any(each in line for each in legitimate)
    ]
    assert found == [], f"say {RETIRED[word]} instead"


SAME = {
    "access": "accounts, tokens and the audit trail: domain, rows, commands",
    "activity": "use of systems over time: rows and routes",
    "app": "the application object of REST, and of csctl",
    "attributes": "attributes of operations: read, and as values",
    "backups": "files of `appliance backup`",
    "certificates": "the appliance's certificates",
    "cluster": "the cluster: route and command",
    "completion": "the shell's completion",
    "config": "csctl's own configuration",
    "elementwise": "operations: kernel and definition",
    "error_status": "errors as gRPC status codes",
    "errors": "the errors of a package",
    "estimates": "the planner's answers: service, route, text",
    "fabric_traces": "traces of the simulated fabric: file and switch",
    "geometry": "points and rectangles of a fabric, and their name for programs",
    "identity": "who somebody is",
    "indexing": "operations: kernel and definition",
    "jobs": "jobs: domain, rows, routes, commands, text",
    "linear_algebra": "operations: kernel and definition",
    "log_exports": "exports of logs: service and route",
    "logs": "logs of jobs: route and command",
    "losses": "operations: kernel and definition",
    "maintenance": "maintenance of systems: command and text",
    "metrics": "Prometheus' metrics: definition and route",
    "micro_batches": "micro-batches: request, plan, samples",
    "movement": "operations: kernel and definition",
    "nodes": "nodes: command and text",
    "normalization": "operations: kernels and definition",
    "notifications": "notifications: domain, rows, request",
    "options": "the options of a package",
    "profiles": "profiles of simulated steps",
    "queue": "the scheduler's queue: decision, route, command, text",
    "reductions": "operations: kernel and definition",
    "role": "the program of a role of pods",
    "routed_products": "operations: kernel and definition",
    "run_sessions": "sessions of an execute job: service and rows",
    "sampling": "operations: kernel and definition",
    "series": "what training shows step by step",
    "server": "something that listens",
    "services": "management's services, and REST's way to them",
    "session": "a session of a job in a pod; csctl's command for the other kind has its name",
    "sessions": "sessions of users: domain, rows, route, text",
    "sitecustomize": "what Python imports before a program: a name of Python's",
    "sources": "operations: kernel and definition",
    "submissions": "submissions of jobs: service and request",
    "system_events": "events of systems: rows and message",
    "systems": "systems: domain and rows",
    "updates": "updates: pass and execution",
    "versions": "versions: of clients, command and text",
    "volumes": "volumes: command and text",
    "windows": "sliding windows: geometry and definition",
}
"""Basenames of several modules, and the one thing that all of them are about."""


def _modules() -> Iterator[Path]:
    for top in ("appliance", "workers", "csctl"):
        for path in sorted((ROOT / top).rglob("*.py")):
            where = str(path.relative_to(ROOT))
            is_fabric = where.startswith((*FABRIC, "workers/sdk"))
            if not is_fabric and not path.stem.startswith("__") and "migrations" not in path.parts:
                yield path


def test_a_basename_of_several_modules_means_one_thing() -> None:
    count = Counter(path.stem for path in _modules())
    several = {stem for stem, number in count.items() if number > 1}
    assert several - set(SAME) == set(), "name the module for what sets it apart, or list it"
    assert set(SAME) - several == set(), "listed, and not the name of several modules any more"


def test_no_class_is_called_a_part_of_something() -> None:
    """Five were, and each was a part of another thing; the name says what the part is."""
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in _modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Part")
    ]
    assert found == []
