"""The tree of commands. What it prints with `--help` is a public surface with a stored copy."""

from typing import Annotated

import typer

from csctl.commands import cancel, config, get, job, label, profile
from csctl.commands.estimate import estimate_model
from csctl.commands.types import list_types
from csctl.flags import (
    CsConfigFlag,
    DebugFlag,
    NamespaceFlag,
    command,
    show_help_alone,
    take_flags,
)
from csctl.version import csctl_version

app = typer.Typer(
    name="csctl",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(cancel.group, name="cancel")
app.add_typer(config.group, name="config")
app.add_typer(get.group, name="get")
app.add_typer(job.group, name="job")
app.add_typer(label.group, name="label")
app.add_typer(profile.group, name="profile")
command(app, "estimate")(estimate_model)
command(app, "types")(list_types)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"csctl version {csctl_version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    csconfig: CsConfigFlag = None,
    namespace: NamespaceFlag = None,
    debug: DebugFlag = 0,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version."),
    ] = False,
) -> None:
    """Wafer-scale cluster command line tool."""
    del version  # its callback has answered
    take_flags(ctx, csconfig=csconfig, namespace=namespace, debug=debug)
    show_help_alone(ctx)
