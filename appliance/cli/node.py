"""`appliance node`: be the agent of a node until told to end."""

import hashlib
import signal
import socket
import sys
from pathlib import Path
from typing import Annotated

import psutil
import typer

from appliance.cli.errors import clear_errors
from appliance.cli.programs_to_run import program_of
from appliance.cluster.agent import Agent, AgentOptions
from appliance.cluster.node_cores import NodeCores
from appliance.core.addresses import IPV6_FORM, bare_host, split_address
from appliance.core.clock import SystemClock
from appliance.core.cluster.join_token import JoinToken
from appliance.core.cluster.requirements import NODE_ROLES
from appliance.core.errors import UserError
from appliance.files.private import keep_private
from appliance.management.options.settings_by_group import QueueOptions
from appliance.observability.logging import configure_logging
from appliance.settings import Settings, read_settings

_GIB = 1 << 30
_MAX_NAME = 63


@clear_errors()
def node(
    *,
    context: typer.Context,
    join: Annotated[str, typer.Option(help="host:port of management's port for nodes.")],
    role: Annotated[
        list[str] | None,
        typer.Option(help="What its pods may be; give it once for each.", show_default="all"),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with a token of `appliance token node`.")
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name of the node, unlike all others.", show_default="host's name")
    ] = "",
    address: Annotated[
        str,
        typer.Option(
            help="Address at which its pods listen and others reach them.",
            show_default="that which leads to management",
        ),
    ] = "",
    public_host: Annotated[
        str, typer.Option(help="What clients call it.", show_default="the address")
    ] = "",
    cores: Annotated[
        int,
        typer.Option(
            help="CPU cores to use; nodes of one machine that do not name theirs share its cores.",
            show_default="all",
        ),
    ] = 0,
    memory_gib: Annotated[float, typer.Option(help="Memory to use.", show_default="all")] = 0.0,
    orphan_seconds: Annotated[
        float, typer.Option(help="How long jobs go on while management is away.")
    ] = QueueOptions().orphan_seconds,
    runtime_dir: Annotated[
        Path | None, typer.Option(help="Directory for sockets, of a short path.")
    ] = None,
) -> None:
    """Join an appliance as a node, and run the pods that it places here.

    The token comes from --token-file or from WSC_JOIN_TOKEN. The directories DATA/jobs and
    DATA/compile of management must be mounted here at the same path.

    Example: appliance node --join head:9002 --role activation --token-file join.token
    """
    settings = read_settings()
    configure_logging(as_json=False, level=settings.log_level, stream=sys.stderr)
    own_address = bare_host(address) or _address_towards(join)
    own_name = (name or socket.gethostname())[:_MAX_NAME]
    options = AgentOptions(
        join=join,
        token=JoinToken.parse(_token(token_file, settings)),
        name=own_name,
        address=own_address,
        public_host=public_host or own_address,
        roles=_roles(role or []),
        cores=NodeCores(num_cores=cores) if cores else NodeCores.of_this_process(),
        memory_bytes=int(memory_gib * _GIB) or psutil.virtual_memory().total,
        runtime_root=runtime_dir or _runtime_root(settings, join, own_name),
        orphan_seconds=orphan_seconds,
        programs=program_of(context).pods,
    )
    keep_private(shares_with_group=True)
    agent = Agent(options, SystemClock())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: agent.stop())
    agent.run()


def _roles(names: list[str]) -> tuple[str, ...]:
    if unknown := [name for name in names if name not in NODE_ROLES]:
        raise UserError(
            f"A node cannot have the role {unknown[0]!r}.", hint=f"Roles: {', '.join(NODE_ROLES)}."
        )
    return tuple(dict.fromkeys(names)) or NODE_ROLES


def _token(path: Path | None, settings: Settings) -> str:
    if path is None:
        if not settings.join_token:
            raise UserError(
                "No join token is given.", hint="Give --token-file, or set WSC_JOIN_TOKEN."
            )
        return settings.join_token
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The join token in {path} cannot be read: {error}.") from error


def _runtime_root(settings: Settings, join: str, name: str) -> Path:
    """Return a directory that is the same at every start, so pods of a killed agent are found."""
    digest = hashlib.sha256(f"{join} {name}".encode()).hexdigest()[:8]
    return settings.runtime_parent / f"wsc-{digest}"


def _address_towards(join: str) -> str:
    """Return the address of this machine from which management is reached."""
    try:
        host, port = split_address(join)
    except ValueError as error:
        raise UserError(f"{join!r} is no host:port at which nodes join.", hint=IPV6_FORM) from error
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, target = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)  # sends nothing: the kernel only chooses the way
            return str(probe.getsockname()[0])
    except OSError as error:
        raise UserError(f"There is no way to {join}: {error}.", hint="Give --address.") from error
