"""The command line `appliance` with all its commands; each is in a module beside this one."""

import typer

from appliance.cli.access import token_app, user_app
from appliance.cli.backups import backup, restore
from appliance.cli.bench import bench
from appliance.cli.certificates import certificates_app
from appliance.cli.node import node
from appliance.cli.proxy import proxy
from appliance.cli.serving import serve
from appliance.cli.status import down, status
from appliance.cli.up import up

app = typer.Typer(
    help="Run an open wafer-scale cluster appliance on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command()(up)
app.command()(status)
app.command()(down)
app.command(hidden=True)(serve)
app.command("node")(node)
app.command("proxy")(proxy)
app.command("bench")(bench)
app.command("backup")(backup)
app.command("restore")(restore)
app.add_typer(token_app, name="token")
app.add_typer(user_app, name="user")
app.add_typer(certificates_app, name="certificates")
