"""Every attack, promise and entry point of docs/security.md is attacked by tests that exist.

`ATTACKS_WRITE=1 pytest tests/architecture/test_attacks.py` writes the table of entry points anew.
"""

import ast
import os
import re
from functools import cache

import pytest

from tests.attack.attacker import OTHERS, ROOT_CAN, SERVED
from tests.attack.entry_points import entry_points, table
from tests.attack.table import DOCUMENT, NAMED, ROOT, rows

_ENTRY_POINTS = re.compile(
    r"(<!-- made by tests/attack/entry_points.py -->\n\n).*?(\n\n|\Z)", re.DOTALL
)


@pytest.mark.parametrize(
    ("section", "least"), [("## Attacks", 40), ("## What is defended", 8), ("## Entry points", 10)]
)
def test_every_row_is_made_by_tests_that_exist(section: str, least: int) -> None:
    found = rows(section)
    assert len(found) >= least
    assert [row.attack for row in found if not row.tests] == []
    missing = [
        f"{path}::{name}"
        for row in found
        for path, name in row.tests
        if name not in functions_of(path)
    ]
    assert missing == []


def test_every_promise_is_a_row() -> None:
    """A promise that stands in the text beside the table names no test."""
    section = DOCUMENT.read_text().partition("\n## What is defended\n")[2].partition("\n## ")[0]
    assert [line for line in section.splitlines() if line.lstrip().startswith(("*", "- "))] == []


def test_every_entry_point_is_attacked() -> None:
    assert [name for name, tests in entry_points().items() if not tests] == []


def test_the_document_shows_the_entry_points() -> None:
    text = DOCUMENT.read_text()
    assert _ENTRY_POINTS.search(text)
    new = _ENTRY_POINTS.sub(lambda found: f"{found[1]}{table().rstrip()}{found[2]}", text)
    if os.environ.get("ATTACKS_WRITE"):
        DOCUMENT.write_text(new)
    assert DOCUMENT.read_text() == new


def test_controls_of_the_live_attacks_are_attacks() -> None:
    """`make attack` shows that root can do what others must not."""
    names = {probe.__name__ for probe in OTHERS}
    assert set(ROOT_CAN) <= names
    assert len(names) == len(OTHERS)
    assert all(probe.__doc__ for probe in (*OTHERS, *SERVED))


@cache
def functions_of(path: str) -> frozenset[str]:
    file = ROOT / "tests" / path
    if not file.exists():
        return frozenset()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.parse(file.read_text()).body
    return frozenset(node.name for node in nodes if isinstance(node, kinds))


def test_names_of_tests_are_read_as_they_are_written() -> None:
    assert NAMED.findall("`unit/a.py::test_b`") == [("unit/a.py", "test_b")]
