"""The command `appliance`: loads what the one command that is asked for needs, and no more.

Management takes 360 modules, 150 MiB and seconds of a core before it does anything. Who starts or
stops it, a proxy and a node's agent need none of that, so they do not pass through
`appliance.cli.all_commands`.
"""

import sys
from importlib import import_module

import typer

from appliance.files.private import keep_private

COMMANDS = {
    "backup": ("appliance.cli.backups", "backup"),
    "bench": ("appliance.cli.bench", "bench"),
    "certificates": ("appliance.cli.certificates", "certificates_app"),
    "down": ("appliance.cli.status", "down"),
    "node": ("appliance.cli.node", "node"),
    "proxy": ("appliance.cli.proxy", "proxy"),
    "restore": ("appliance.cli.backups", "restore"),
    "serve": ("appliance.cli.serving", "serve"),
    "status": ("appliance.cli.status", "status"),
    "token": ("appliance.cli.access", "token_app"),
    "up": ("appliance.cli.up", "up"),
    "user": ("appliance.cli.access", "user_app"),
}
"""Module and name of each command."""


def main() -> None:
    """Run the command line."""
    keep_private()
    found = COMMANDS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if found is None:
        import_module("appliance.cli.all_commands").app(prog_name="appliance")
        return
    command_line(sys.argv[1])(prog_name="appliance")


def command_line(name: str) -> typer.Typer:
    """Return the command line with one command alone; the words are those of the whole one."""
    module, attribute = COMMANDS[name]
    command = getattr(import_module(module), attribute)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)
    app.callback()(lambda: None)  # or the name of a single command would be left out
    return app


if __name__ == "__main__":
    main()
