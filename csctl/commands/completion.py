"""`csctl completion`: prints the shell's completion script."""

from enum import StrEnum
from typing import Annotated

import click
from click.shell_completion import get_completion_class

from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument

_VARIABLE = "_CSCTL_COMPLETE"


class Shell(StrEnum):
    """A shell that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def print_completion(
    invocation: Invocation,
    shell: Annotated[Shell, argument("SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print what makes a shell complete commands, options and the names of jobs."""
    root = click.get_current_context().find_root().command
    found = get_completion_class(shell.value)
    assert found is not None, f"click completes nothing in {shell.value}"
    invocation.write(found(root, {}, "csctl", _VARIABLE).source().rstrip("\n"))
