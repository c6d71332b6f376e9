"""The command `appliance`: loads what the one command that is asked for needs, and no more.

Management takes 360 modules, 150 MiB and seconds of a core before it does anything. Who starts or
stops it, a proxy and a node's agent need none of that, and neither does who asks for help.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from appliance.core.uncollected_imports import uncollected_imports
from appliance.files.private import keep_private


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a command is.

    Attributes:
        attribute: Its name there: a function, or several commands as a `typer.Typer`.
        summary: What the list of commands says of it, the first sentence of its own help.
        is_hidden: Whether that list leaves it out.
    """

    module: str
    attribute: str
    summary: str
    is_hidden: bool = False


COMMANDS = {
    "up": Place(module="appliance.cli.up", attribute="up", summary="Start the appliance."),
    "status": Place(
        module="appliance.cli.status",
        attribute="status",
        summary="Say whether the appliance runs, and where.",
    ),
    "down": Place(
        module="appliance.cli.status",
        attribute="down",
        summary="Stop the appliance and everything it runs.",
    ),
    "serve": Place(
        module="appliance.cli.serving",
        attribute="serve",
        summary="Be the appliance that `up` starts in the background, and tells `up` of itself.",
        is_hidden=True,
    ),
    "node": Place(
        module="appliance.cli.node",
        attribute="node",
        summary="Join an appliance as a node, and run the pods that it places here.",
    ),
    "proxy": Place(
        module="appliance.cli.proxy",
        attribute="proxy",
        summary="Be the port that clients connect to, so that they stay connected when management "
        "changes.",
    ),
    "bench": Place(
        module="appliance.cli.bench",
        attribute="bench",
        summary="Time the libraries that systems can compute by, on a transformer's layer.",
    ),
    "backup": Place(
        module="appliance.cli.backups",
        attribute="backup",
        summary="Write a backup of the appliance, which may be running, to a new file or standard "
        "output.",
    ),
    "restore": Place(
        module="appliance.cli.backups",
        attribute="restore",
        summary="Put a backup in the place of what the appliance keeps; it must be down.",
    ),
    "token": Place(
        module="appliance.cli.access",
        attribute="token_app",
        summary="Mint, list and revoke the tokens of `appliance up --tls --tokens`.",
    ),
    "user": Place(
        module="appliance.cli.access",
        attribute="user_app",
        summary="Administer the users of the appliance.",
    ),
    "certificates": Place(
        module="appliance.cli.certificates",
        attribute="certificates_app",
        summary="Make the certificates of an appliance on Kubernetes.",
    ),
}
"""Every command, in the order of the help."""


class Commands(TyperGroup):
    """All commands: listed by what the table says of them, loaded when one is run.

    Attributes:
        is_whole_process: Whether this process runs one command and nothing else.
    """

    is_whole_process: ClassVar[bool] = False

    # Context and command are of typer's own copy of click, which has no public name.

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401
        """Return their names."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:  # noqa: ANN401
        """Return what the list of commands needs of one; None if there is none of that name."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        return TyperCommand(cmd_name, help=place.summary, hidden=place.is_hidden)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401
        """Return the command that is to run, loaded, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is None:
            return name, command, rest
        with uncollected_imports() if self.is_whole_process else nullcontext():
            return name, load_command(name), rest


app = typer.Typer(
    cls=Commands,
    help="Run an open wafer-scale cluster appliance on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(lambda: None)


def load_command(name: str) -> Any:  # noqa: ANN401 - see above
    """Return a command, for which its module is imported.

    Args:
        name: One of `COMMANDS`.
    """
    place = COMMANDS[name]
    found = getattr(import_module(place.module), place.attribute)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name)(found)
    alone.callback()(lambda: None)  # or the name of a single command would be left out
    return typer.main.get_group(alone).commands[name]


def main() -> None:
    """Run the command line."""
    keep_private()
    Commands.is_whole_process = True
    app(prog_name="appliance")


if __name__ == "__main__":
    main()
