"""What `csctl --help` prints, of every command, is a public surface with a stored copy.

Run with `CSCTL_WRITE_SURFACE=1` to store what it prints now, and read the difference.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from csctl.command_line.app import app
from csctl.command_line.running import main
from tests.support.csctl_reference import MARK, commands, reference

_ROOT = Path(__file__).parents[2]
_REFERENCE = _ROOT / "docs" / "csctl.md"
_NO_VARIABLES = {"GRPC_VERBOSITY"}
"""Set for gRPC; a user has nothing to do with it."""

_REAL = (
    "cancel job",
    "check-volumes",
    "clear-worker-cache",
    "cluster topology",
    "config set-cluster",
    "config view",
    "debug-artifact",
    "get cluster",
    "get job",
    "get nodegroups",
    "get nodes",
    "get systems",
    "get version",
    "get volumes",
    "get worker-cache",
    "job list",
    "job set-priority",
    "job topology",
    "label job",
    "log-export",
    "session",
    "system-maintenance",
    "types",
    "user",
)
"""Commands that the public documents of real clusters show, or their wire has calls for."""

_COPY = Path(__file__).parent / "csctl_help.txt"


@dataclass(frozen=True)
class Node:
    """A command, or a group of them, and the words that lead to it."""

    words: tuple[str, ...]
    command: Any


def _tree(node: Node) -> Iterator[Node]:
    """Yield `node` and every command and alias below it."""
    yield node
    if not isinstance(node.command, click.Group):
        return
    context = click.Context(node.command)
    for name in node.command.list_commands(context):
        command = node.command.get_command(context, name)
        yield from _tree(Node((*node.words, name), command))


ROOT = Node((), app)


def test_help_is_what_the_stored_copy_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    pages = []
    for node in _tree(ROOT):
        assert main([*node.words, "--help"]) == 0
        pages.append(f"$ {' '.join(['csctl', *node.words])} --help\n{capsys.readouterr().out}")
    got = "\n".join(pages)

    if os.environ.get("CSCTL_WRITE_SURFACE"):
        _COPY.write_text(got)
    assert got == _COPY.read_text(), "changed on purpose? see the docstring of this module"


def test_the_reference_is_what_the_commands_say() -> None:
    written, mark, _ = _REFERENCE.read_text().partition(MARK)
    got = f"{written}{mark}\n\n{reference(app)}"
    if os.environ.get("CSCTL_WRITE_SURFACE"):
        _REFERENCE.write_text(got)
    assert got == _REFERENCE.read_text(), "run CSCTL_WRITE_SURFACE=1 pytest on this module"


def test_the_reference_names_every_variable_that_csctl_reads_or_sends() -> None:
    found = {
        name
        for path in (_ROOT / "csctl").rglob("*.py")
        for name in re.findall(
            r'"((?:[A-Z]+_)+[A-Z]+|CSAUTH_TOKEN|PATH|LANG|TZ|TMPDIR)"', path.read_text()
        )
        if name not in _NO_VARIABLES
    }
    text = _REFERENCE.read_text().partition(MARK)[0]
    assert {"NO_COLOR", "CSCONFIG_PATH", "PYTHONPATH"} <= found | {"PYTHONPATH"}
    assert sorted(name for name in found if f"`{name}`" not in text) == []


def test_the_page_of_differences_lists_the_commands_that_a_real_csctl_lacks() -> None:
    text = (_ROOT / "docs" / "differences.md").read_text()
    listed = re.findall(r"^\| `csctl ([a-z -]+)` \| \S", text, re.MULTILINE)
    added = [
        name for words, _ in commands(app) if not (name := " ".join(words[1:])).startswith(_REAL)
    ]
    assert listed == added


@pytest.mark.parametrize("node", [*_tree(ROOT)], ids=lambda node: " ".join(["csctl", *node.words]))
def test_every_command_and_parameter_is_explained(node: Node) -> None:
    assert node.command.help
    unexplained = [
        each.name
        for each in node.command.params
        if not (getattr(each, "help", None) or getattr(each, "explanation", None))
    ]
    assert unexplained == []
