"""`appliance status` and `appliance down`: find a running appliance, and stop it."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.errors import clear_errors
from appliance.cli.options.data_dir import DataDir, print_state
from appliance.cluster.process_launcher import end_survivors
from appliance.management.store.instance import STOP_SECONDS, Instance
from appliance.settings import read_settings


def status(*, data_dir: DataDir = None) -> None:
    """Say whether the appliance runs, and where."""
    instance = Instance((data_dir or read_settings().data_dir).absolute())
    state = instance.find_state()
    if state is None or not instance.is_running():
        typer.echo("The appliance is down.")
        if state is not None:
            typer.echo(
                f"Its process {state.pid} was killed or crashed; the end of {instance.log_path} "
                "may say why. `appliance up` goes on with its jobs."
            )
        raise typer.Exit(3)
    print_state(state)


def down(
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="End running jobs unasked.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Stop the appliance and everything it runs.

    On a terminal it names the jobs that have not ended, and asks before it ends them.
    """
    settings = read_settings()
    directory = (data_dir or settings.data_dir).absolute()
    with clear_errors():
        if not yes and sys.stdin.isatty() and Instance(directory).is_running():
            ask(directory)
        was_running = Instance(directory).stop()
        runtime_root = settings.runtime_root(directory)
        was_running |= end_survivors(runtime_root, timeout_seconds=STOP_SECONDS)
    shutil.rmtree(settings.runtime_root(directory), ignore_errors=True)
    typer.echo("The appliance is down." if was_running else "No appliance was running.")


def ask(directory: Path) -> None:
    """Have the user agree to the end of jobs, if there are any; else end the command."""
    # Imported here, as the database takes a second that nobody else waits for.
    from appliance.cli.unfinished_jobs import unfinished_jobs  # noqa: PLC0415

    lines = unfinished_jobs(directory)
    if not lines:
        return
    typer.echo("These jobs have not ended, and will be ended as FAILED:")
    typer.echo("\n".join(f"  {line}" for line in lines))
    if not typer.confirm("Stop the appliance?"):
        typer.echo("It goes on.")
        raise typer.Exit(1)
