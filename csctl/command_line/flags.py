"""Commands and groups of commands with the flags that every command has.

Users and the Python client write `csctl -n S get jobs` as well as `csctl get jobs -n S`, so each
command takes the flags of the whole tree too.
"""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import click

from csctl.command_line.completion import job_names, output_forms, run_names
from csctl.command_line.invocation import Flags, Invocation
from csctl.command_line.params import ExplainedCommand, argument, option, parameters_of, values_of
from csctl.connection.config import DEFAULT_PATH
from csctl.output.documents.output_formats import Output, parse_output

# A command: its first argument is the invocation, the others are parsed.
C = TypeVar("C", bound=Callable[..., None])

_NAMESPACE_HELP = "Session to work in. [default: the config's only one]"

CsConfigFlag = Annotated[
    Path | None,
    option(
        "--csconfig",
        metavar="PATH",
        help=f"Config file of the cluster. [default: $CSCONFIG_PATH, else {DEFAULT_PATH}, else "
        "that of the appliance that you run on this machine]",
    ),
]
NamespaceFlag = Annotated[
    str | None, option("-n", "--namespace", metavar="SESSION", help=_NAMESPACE_HELP)
]
DebugFlag = Annotated[
    int,
    option(
        "-d",
        "--debug",
        metavar="LEVEL",
        show_default=False,
        help="Higher levels show more fields of objects; from 1 on, errors show a traceback.",
    ),
]
JobNameArgument = Annotated[
    str,
    argument(
        "NAME",
        help="The job: wsjob-...; or its run: wflow-..., or the run's name; each also as "
        "<session>/NAME.",
        complete=job_names,
    ),
]
RunNameArgument = Annotated[
    str,
    argument(
        "NAME",
        help="The run: its id or its name, or <session>/NAME; or one of its jobs.",
        complete=run_names,
    ),
]
JobNamesArgument = Annotated[
    list[str] | None,
    argument(
        "[NAME]...",
        help="Jobs: wsjob-...; or runs: wflow-..., or their names; each also as <session>/NAME.",
        complete=job_names,
    ),
]

OutputOption = Annotated[
    Output,
    option(
        "-o",
        "--output",
        metavar="[table|wide|json|yaml|name|custom-columns=...|jsonpath=...]",
        parse=parse_output,
        complete=output_forms,
        help="Form of the answer.",
    ),
]

WatchFlag = Annotated[
    bool, option("-w", "--watch", help="Go on: show each one again when it changes.")
]

TABLE_LIMIT = 500
"""Rows that a person may still read, and that are shown at once however long the queue is."""

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""How click reads and prints every command."""


class Group(click.Group):
    """A group of commands, by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(self.commands)


def new_group(help_text: str) -> Group:
    """Return an empty group of commands; alone on the command line it prints its help."""
    return Group(
        help=help_text,
        invoke_without_command=True,
        callback=lambda: show_help_alone(click.get_current_context()),
        context_settings=SETTINGS,
    )


def show_help_alone(ctx: click.Context) -> None:
    """Print the group's help when no command follows it."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def command(
    group: click.Group,
    name: str,
    *,
    aliases: Sequence[str] = (),
    example: str = "",
) -> Callable[[C], C]:
    """Register the decorated function as a command of the group.

    Args:
        group: Where it belongs.
        name: What users type.
        aliases: What they may type instead; not listed in the help.
        example: A command line for the help.
    """

    def register(function: C) -> C:
        for each in (name, *aliases):
            made = new_command(each, function, example=example)
            made.hidden = each != name
            group.add_command(made)
        return function

    return register


def new_command(name: str, function: Callable[..., None], *, example: str = "") -> click.Command:
    """Return the command that parses a function's parameters and calls it."""
    own = parameters_of(function, skip=1)
    common = parameters_of(_common)

    def body(csconfig: Path | None, namespace: str | None, debug: int, **given: object) -> None:
        invocation = take_flags(
            click.get_current_context(), csconfig=csconfig, namespace=namespace, debug=debug
        )
        function(invocation, **values_of(given, own))

    return ExplainedCommand(
        name,
        params=[*own, *common],
        callback=body,
        help=inspect.getdoc(function),
        epilog=f"Example: {example}" if example else None,
        context_settings=SETTINGS,
    )


def take_flags(
    ctx: click.Context, *, csconfig: Path | None, namespace: str | None, debug: int
) -> Invocation:
    """Return the run's invocation with these flags laid over those that came before the verb."""
    invocation: Invocation = ctx.obj
    later = Flags(csconfig=csconfig, namespace=namespace, debug=debug)
    invocation.flags = invocation.flags.overridden_by(later)
    return invocation


def _common(
    csconfig: CsConfigFlag = None, namespace: NamespaceFlag = None, debug: DebugFlag = 0
) -> None:
    """Have the flags of every command."""
