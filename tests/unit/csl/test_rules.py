"""The table of the language's rules names tests that exist and words that they look for."""

import importlib
import inspect
import re
from collections import Counter
from types import FunctionType

import pytest

from tests.unit.csl.rules import RULES, Rule


def _test(name: str) -> FunctionType:
    module, _, function = name.rpartition(".")
    package = "" if module.startswith("tests.") else f"{__package__}."
    return getattr(importlib.import_module(package + module), function)


def _reach(test: FunctionType) -> str:
    """What a test looks for: its own text and that of its rows."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    rows = "\n".join(str(part) for mark in marks for row in mark.args[1] for part in row)
    return re.sub(r"\"\s*\n\s*\"", "", inspect.getsource(test)) + rows


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_has_a_right_and_a_wrong_program(rule: Rule) -> None:
    assert _test(rule.right)
    assert rule.words in _reach(_test(rule.wrong))


def test_a_rule_stands_in_the_table_once() -> None:
    names = Counter(rule.name for rule in RULES)
    assert [name for name, count in names.items() if count > 1] == []
