"""`appliance status` and `appliance down`: find a running appliance, and stop it."""

import shutil

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


def down(*, data_dir: DataDir = None) -> None:
    """Stop the appliance and everything it runs."""
    settings = read_settings()
    directory = (data_dir or settings.data_dir).absolute()
    with clear_errors():
        was_running = Instance(directory).stop()
        runtime_root = settings.runtime_root(directory)
        was_running |= end_survivors(runtime_root, timeout_seconds=STOP_SECONDS)
    shutil.rmtree(settings.runtime_root(directory), ignore_errors=True)
    typer.echo("The appliance is down." if was_running else "No appliance was running.")
