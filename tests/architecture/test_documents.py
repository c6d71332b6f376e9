"""The documents keep up with the tree: decisions are indexed, make targets explained."""

import ast
import re
from pathlib import Path

from appliance.core.cluster.jobs import Phase

ROOT = Path(__file__).parents[2]


def test_every_decision_is_in_the_index_once_and_in_no_other() -> None:
    directory = ROOT / "docs" / "decisions"
    decisions = sorted(path.name for path in directory.glob("[0-9]*.md"))
    assert decisions
    listed = re.findall(
        r"^\* \[\d{4}\]\((\S+)\)", (directory / "README.md").read_text(), re.MULTILINE
    )
    assert sorted(listed) == decisions
    assert re.findall(r"^\* \[\d{4}\]", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE) == []


def test_the_glossary_names_the_phases_of_a_job() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    assert f"| phase | where a job stands: {', '.join(Phase)} |" in text


def test_every_package_of_the_appliance_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = {path.parent.name for path in (ROOT / "appliance").glob("*/__init__.py")}
    assert sorted(name for name in packages if name not in text) == []


def test_documents_name_only_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in (ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md"):
        named = set(re.findall(r"`make ([a-z-]+)`", document.read_text()))
        assert named <= targets, document.name


def test_the_ways_through_the_code_that_the_architecture_tells_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`([\w/]+\.py):(\w+)`", text)
    assert len(named) > 20
    missing = [f"{path}:{name}" for path, name in named if name not in _functions(ROOT / path)]
    assert missing == []


def test_the_places_that_a_newcomer_is_shown_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    shown = re.findall(r"^\| where .+\? \| `([^`]+)` \|$", text, re.MULTILINE)
    assert len(shown) >= 10
    assert [path for path in shown if not (ROOT / path).is_file()] == []


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}
