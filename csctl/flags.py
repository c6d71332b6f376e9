"""Commands and groups of commands with the flags that every command has.

Users and the Python client write `csctl -n S get jobs` as well as `csctl get jobs -n S`. typer has
no flags that hold for a whole tree, so `command` adds them to the signature of each command.
"""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from csctl.config import DEFAULT_PATH
from csctl.invocation import Flags, Invocation

# A command: its first argument is the invocation, the others are what typer reads.
C = TypeVar("C", bound=Callable[..., None])

_NAMESPACE_HELP = "Session to work in. [default: the config's only one]"

CsConfigFlag = Annotated[
    Path | None,
    typer.Option(
        "--csconfig",
        metavar="PATH",
        show_default=False,
        help=f"Config file of the cluster. [default: $CSCONFIG_PATH, else {DEFAULT_PATH}]",
    ),
]
NamespaceFlag = Annotated[
    str | None,
    typer.Option("-n", "--namespace", metavar="SESSION", show_default=False, help=_NAMESPACE_HELP),
]
_LongNamespaceFlag = Annotated[
    str | None,
    typer.Option("--namespace", metavar="SESSION", show_default=False, help=_NAMESPACE_HELP),
]
DebugFlag = Annotated[
    int,
    typer.Option(
        "-d",
        "--debug",
        metavar="LEVEL",
        show_default=False,
        help="Higher levels show more fields of objects; from 1 on, errors show a traceback.",
    ),
]
JobNameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", show_default=False, help="The job: wsjob-..., or <session>/wsjob-... ."
    ),
]


def new_group(help_text: str) -> typer.Typer:
    """Return an empty group of commands; alone on the command line it prints its help."""
    group = typer.Typer(rich_markup_mode=None)
    group.callback(help=help_text, invoke_without_command=True)(show_help_alone)
    return group


def show_help_alone(ctx: typer.Context) -> None:
    """Print the group's help when no command follows it."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def command(
    group: typer.Typer,
    name: str,
    *,
    aliases: Sequence[str] = (),
    has_own_n: bool = False,
) -> Callable[[C], C]:
    """Register the decorated function as a command of the group.

    Args:
        group: Where it belongs.
        name: What users type.
        aliases: What they may type instead; not listed in the help.
        has_own_n: `-n` means something else here, and the session is `--namespace` only.
    """

    def register(function: C) -> C:
        body = _with_flags(function, has_own_n=has_own_n)
        group.command(name)(body)
        for alias in aliases:
            group.command(alias, hidden=True)(body)
        return function

    return register


def take_flags(
    ctx: typer.Context, *, csconfig: Path | None, namespace: str | None, debug: int
) -> Invocation:
    """Return the run's invocation with these flags laid over those that came before the verb."""
    invocation: Invocation = ctx.obj
    later = Flags(csconfig=csconfig, namespace=namespace, debug=debug)
    invocation.flags = invocation.flags.overridden_by(later)
    return invocation


def _with_flags(function: Callable[..., None], *, has_own_n: bool) -> Callable[..., None]:
    def body(
        ctx: typer.Context,
        csconfig: Path | None,
        namespace: str | None,
        debug: int,
        **own: object,
    ) -> None:
        invocation = take_flags(ctx, csconfig=csconfig, namespace=namespace, debug=debug)
        function(invocation, **own)

    namespace_flag = _LongNamespaceFlag if has_own_n else NamespaceFlag
    _, *own_parameters = inspect.signature(function).parameters.values()
    parameters = [
        _parameter("ctx", typer.Context),
        *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own_parameters),
        _parameter("csconfig", CsConfigFlag, default=None),
        _parameter("namespace", namespace_flag, default=None),
        _parameter("debug", DebugFlag, default=0),
    ]
    body.__doc__ = function.__doc__
    body.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(body)["__signature__"] = inspect.Signature(parameters)
    return body


def _parameter(
    name: str,
    annotation: object,
    *,
    default: object = inspect.Parameter.empty,
) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )
