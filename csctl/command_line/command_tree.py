"""The tree of commands, imported branch by branch.

`csctl get jobs` must answer in a fifth of a second, so a run imports only the module of the command
that it runs. What the tree prints with `--help` is a public surface with a stored copy.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from csctl.command_line.flags import SETTINGS, Group, new_command, show_help_alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Where a command, or a group of commands, is.

    Attributes:
        module: Module below `csctl.commands`.
        attribute: The group in it, or the function of the command.
        aliases: What users may type instead; not listed in the help.
        example: A command line for the help of a command.
    """

    module: str
    attribute: str = "group"
    aliases: tuple[str, ...] = ()
    example: str = ""


class Tree(Group):
    """A group whose commands are imported when they are asked for.

    Args:
        branches: Commands by name.
        settings: As click takes them.
    """

    def __init__(self, branches: Mapping[str, Branch], **settings: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(**settings)
        self._branches = branches
        self._aliases = {
            alias: name for name, branch in branches.items() for alias in branch.aliases
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, hidden ones too."""
        return sorted({*self._branches, *self._aliases})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None if there is none of that name."""
        branch = self._branches.get(self._aliases.get(cmd_name, cmd_name))
        if cmd_name not in self.commands and branch is not None:
            found = _load(branch, cmd_name)
            found.hidden = cmd_name in self._aliases
            self.add_command(found, cmd_name)
        return super().get_command(ctx, cmd_name)


def new_tree(help_text: str, branches: Mapping[str, Branch]) -> Tree:
    """Return a group that prints its help when it is alone on the command line."""
    return Tree(
        branches,
        help=help_text,
        invoke_without_command=True,
        callback=lambda: show_help_alone(click.get_current_context()),
        context_settings=SETTINGS,
    )


def _load(branch: Branch, name: str) -> click.Command:
    found = getattr(importlib.import_module(f"csctl.commands.{branch.module}"), branch.attribute)
    if isinstance(found, click.Command):
        return found
    return new_command(name, found, example=branch.example)
