"""docs/settings.md says what the code says; `SETTINGS_WRITE=1` writes it anew."""

import ast
import os
import re
from pathlib import Path

from tests.support.settings_reference import reference

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "settings.md"
VARIABLE = re.compile(r"\b(?:WSC|XDG|OTEL|CSAUTH|CSCONFIG)_[A-Z][A-Z_]*[A-Z]\b")


def test_the_page_of_settings_is_the_generated_one():
    if os.environ.get("SETTINGS_WRITE"):
        PAGE.write_text(reference())
    assert PAGE.read_text() == reference(), "run SETTINGS_WRITE=1 pytest tests/architecture"


def test_every_variable_that_a_program_reads_is_in_a_reference():
    pages = ("settings", "csctl", "sdk", "fabric-traces", "csl-debugging", "deployment")
    told = "".join((ROOT / "docs" / f"{page}.md").read_text() for page in pages)
    read = {
        node.value
        for package in ("appliance", "csctl", "workers")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and VARIABLE.fullmatch(node.value)
    }
    assert len(read) > 15
    assert {name for name in read if f"`{name}" not in told} == set()
