"""The command `appliance`: loads what the one command that is asked for needs, and no more.

Management takes 360 modules and 150 MiB before it does anything. A proxy or a node's agent is a
process of its own that needs none of that, so it does not pass through `appliance.__main__`.
"""

import sys
from importlib import import_module

import typer

COMMANDS = {
    "backup": ("appliance.cli.backups", "backup"),
    "certificates": ("appliance.cli.certificates", "certificates_app"),
    "node": ("appliance.cli.node", "node"),
    "proxy": ("appliance.cli.proxy", "proxy"),
    "restore": ("appliance.cli.backups", "restore"),
    "token": ("appliance.cli.access", "token_app"),
    "user": ("appliance.cli.access", "user_app"),
}
"""Module and name of each command that needs no management."""


def main() -> None:
    """Run the command line."""
    found = COMMANDS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if found is None:
        import_module("appliance.__main__").main()
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
