"""Every attack that docs/security.md lists is made by tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def test_every_attack_is_made_by_tests_that_exist() -> None:
    text = (ROOT / "docs" / "security.md").read_text().partition("## Attacks")[2]
    rows = [line for line in text.splitlines() if line.startswith("| ") and "attack |" not in line]
    assert len(rows) > 40
    assert [row for row in rows if not NAMED.search(row)] == []
    missing = [
        f"{path}::{name}" for path, name in NAMED.findall(text) if name not in functions_of(path)
    ]
    assert missing == []


@cache
def functions_of(path: str) -> frozenset[str]:
    file = ROOT / "tests" / path
    if not file.exists():
        return frozenset()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.parse(file.read_text()).body
    return frozenset(node.name for node in nodes if isinstance(node, kinds))
