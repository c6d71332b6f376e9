"""What the pages tell their reader to type is executed by a test, or is listed with a reason."""

import ast
from pathlib import Path

from tests.support.pages import ROOT, Block, all_blocks

TYPED = ("console", "bash", "sh", "yaml", "python")
PROGRAMS = {
    *(
        "appliance",
        "csctl",
        "cs_debug",
        "cs_python",
        "cs_trace",
        "cslc",
        "docker",
        "export",
        "git",
        "helm",
    ),
    *("kubectl", "make", "pip", "python"),
}

EVERYTHING = "installs everything and runs all tests, as .ci/run does"
CONTAINERS = "needs a container engine; tests/compose does the same where there is one"
NOT_EXECUTED = {
    ("README.md", "$ make demo"): EVERYTHING,
    ("CONTRIBUTING.md", "$ make setup"): EVERYTHING,
    ("docs/deployment.md", "$ docker compose build"): CONTAINERS,
    ("docs/deployment.md", "$ token=$(docker compose"): CONTAINERS,
    ("docs/deployment.md", "$ kind create cluster"): "makes a Kubernetes cluster and its images",
    ("docs/operations.md", "kubectl -n wafer get lease"): "needs pods of management and nodes; "
    "deploy/drill.sh drains, tests/kubernetes/test_leadership.py loses leaders",
    (
        "docs/csl-editors.md",
        "$ pip install",
    ): "make setup installs the extra",
    ("docs/generation.md", "@cstorch.trace"): "a part of tests/conformance/client/generation.py",
}
"""Blocks by the beginning of their first line."""


def pages() -> list[str]:
    """Return every page for users and developers; decisions tell of their time."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/labs/*.md")]
    found += [*ROOT.glob("examples/**/*.md"), *ROOT.glob("deploy/**/*.md")]
    assert len(found) > 25
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def typed_blocks() -> list[Block]:
    blocks = [block for page in pages() for block in all_blocks(page)]
    return [block for block in blocks if block.language in TYPED]


def executed() -> dict[str, set[str]]:
    """Return what tests take of the pages: languages, and beginnings of first lines."""
    found: dict[str, set[str]] = {"blocks_of": set(), "block_of": set()}
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "tests.support.pages" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in found:
                found[node.func.id].add("\n".join(_literals(node, path)))
    return found


def _literals(node: ast.Call, path: Path) -> list[str]:
    words = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
    where = f"{path.name}, line {node.lineno}"
    assert len(words) == len(node.args) == 2, f"{where}: a page and its block have literal names"
    return [str(word) for word in words]


def is_executed(block: Block, taken: dict[str, set[str]]) -> bool:
    if f"{block.page}\n{block.language}" in taken["blocks_of"]:
        return True
    starts = (each.partition("\n") for each in taken["block_of"])
    return any(page == block.page and block.first_line.startswith(s) for page, _, s in starts)


def is_listed(block: Block) -> bool:
    return any(
        page == block.page and block.first_line.startswith(start) for page, start in NOT_EXECUTED
    )


def test_every_block_is_executed_or_listed_with_a_reason() -> None:
    taken = executed()
    left = [b for b in typed_blocks() if not is_executed(b, taken) and not is_listed(b)]
    assert [f"{block.page}: {block.first_line}" for block in left] == []


def test_the_list_names_only_blocks_that_exist_and_that_nobody_executes() -> None:
    taken = executed()
    named = [block for block in typed_blocks() if is_listed(block)]
    assert len(named) == len(NOT_EXECUTED)
    assert [block.first_line for block in named if is_executed(block, taken)] == []


def test_no_command_hides_in_a_block_without_a_language() -> None:
    hidden = [
        f"{block.page}: {line}"
        for page in pages()
        if page != "docs/csctl.md"  # usage, generated from the command line
        for block in all_blocks(page)
        if not block.language
        for line in block.text.splitlines()
        if line.startswith("$ ") or line.split(" ")[0].rpartition("/")[2] in PROGRAMS
    ]
    assert hidden == []
