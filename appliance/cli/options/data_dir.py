"""The data directory of an appliance, and the printed summary of a running one."""

from pathlib import Path
from typing import Annotated

import typer

from appliance.management.store.instance import InstanceState

DataDir = Annotated[
    Path | None, typer.Option(help="Where everything is kept.", show_default="per XDG")
]


def print_state(state: InstanceState) -> None:
    """Print how to reach an appliance."""
    typer.echo(f"The appliance is up with {state.num_systems} system(s).")
    typer.echo(f"  address    {state.address}")
    typer.echo(f"  dashboard  {state.rest_url}/")
    typer.echo(f"  REST       {state.rest_url}/api/v1")
    typer.echo(f"  config_v2  {state.config_path}")
    if state.join_address:
        typer.echo(f"  nodes join {state.join_address}")
    typer.echo(f"Clients find it with CSCONFIG_PATH={state.config_path}")
