"""The documents keep up with the tree: decisions are indexed, make targets explained."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_decision_is_in_the_index_of_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    decisions = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert decisions
    assert [path.name for path in decisions if f"docs/decisions/{path.name}" not in text] == []


def test_every_package_of_the_appliance_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = {path.parent.name for path in (ROOT / "appliance").glob("*/__init__.py")}
    assert sorted(name for name in packages if name not in text) == []


def test_documents_name_only_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in (ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md"):
        named = set(re.findall(r"`make ([a-z-]+)`", document.read_text()))
        assert named <= targets, document.name
