"""What `csctl --help` prints, of every command, is a public surface with a stored copy.

Run with `CSCTL_WRITE_SURFACE=1` to store what it prints now, and read the difference.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from csctl.command_line.app import app
from csctl.command_line.program import main

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


@pytest.mark.parametrize("node", [*_tree(ROOT)], ids=lambda node: " ".join(["csctl", *node.words]))
def test_every_command_and_parameter_is_explained(node: Node) -> None:
    assert node.command.help
    unexplained = [
        each.name
        for each in node.command.params
        if not (getattr(each, "help", None) or getattr(each, "explanation", None))
    ]
    assert unexplained == []
