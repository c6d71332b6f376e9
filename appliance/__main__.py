"""The composition root and its command line: `appliance up | status | down`."""

import asyncio
import dataclasses
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
import uvicorn
import yaml

from appliance.access_commands import token_app, user_app
from appliance.api.app import create_app
from appliance.api.services import ApiServices
from appliance.cluster.processes import end_survivors
from appliance.core.clock import SystemClock
from appliance.core.errors import ClusterError, InternalError, UserError, WscError
from appliance.dashboard.pages import install_pages
from appliance.management.activity import ActivityService
from appliance.management.cluster_file import parse_cluster
from appliance.management.instance import STOP_SECONDS, Instance, InstanceState
from appliance.management.server import Management, ManagementOptions
from appliance.observability.logging import configure_logging
from appliance.scheduler.policy import Policy
from appliance.settings import read_settings
from appliance.wafer.machine import parse_machine
from appliance.wafer.memory import free_bytes

logger = logging.getLogger(__name__)

app = typer.Typer(
    help="Run an open wafer-scale cluster appliance on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(token_app, name="token")
app.add_typer(user_app, name="user")

_GIB = 1 << 30
_REST_GRACE_SECONDS = 3
"""How long REST requests may take to end when the appliance does."""

_DataDir = Annotated[
    Path | None, typer.Option(help="Where everything is kept.", show_default="per XDG")
]

_StreamsFlag = Annotated[
    str, typer.Option(help="Tensors go by ring, mapped (no copy), network or network-tls.")
]
_MemoryFlag = Annotated[
    float, typer.Option(help="GiB that a job's MemoryX may use; more goes to files. 0: all.")
]
_PrecisionFlag = Annotated[
    str, typer.Option(help="f32 (fast) or exact (rounds every 16-bit result).")
]
_MachineFlag = Annotated[
    str, typer.Option(help="What each system is: cs2, cs3, or a YAML file with a table.")
]
_PaceFlag = Annotated[
    float, typer.Option(help="Wall seconds per simulated second to hold runs to; 0 for none.")
]
_StallFlag = Annotated[
    float, typer.Option(help="How long a system may wait for a batch before its job fails.")
]
_ExecutionFlag = Annotated[
    str,
    typer.Option(
        help="How the wafer is used unless a job's label wsc.execution says it: weight-streaming, "
        "pipelined, or auto (pipelined where a program fits)."
    ),
]

_LeaseFlag = Annotated[int, typer.Option(help="Life of a job without a sign of its client.")]
_Systems = Annotated[
    int | None,
    typer.Option(help="Simulated CS-2 systems on this machine.", show_default="as before, or 1"),
]
_ClusterFile = Annotated[Path | None, typer.Option(help="YAML file that describes the cluster.")]
_OrphanSeconds = Annotated[
    float, typer.Option(help="How long jobs go on while management is away.")
]
_HistoryDays = Annotated[
    float, typer.Option(help="Forget jobs that ended longer ago, with their logs; 0 keeps all.")
]
_Database = Annotated[
    str, typer.Option(help="postgresql+psycopg://... to use instead of SQLite.", show_default="")
]
_Preemption = Annotated[
    bool, typer.Option("--preemption", help="Let urgent jobs stop preemptible ones.")
]


@app.command()
def up(
    *,
    data_dir: _DataDir = None,
    systems: _Systems = None,
    cluster: _ClusterFile = None,
    host: Annotated[str, typer.Option(help="Name or address to listen at.")] = "localhost",
    port: Annotated[int, typer.Option(help="Port for clients; 0 for any.")] = 9000,
    rest_port: Annotated[int, typer.Option(help="Port for REST; 0 for any.")] = 9001,
    tls: Annotated[bool, typer.Option("--tls", help="Talk TLS, gRPC and REST alike.")] = False,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Want a token of `appliance token` with every call.")
    ] = False,
    precision: _PrecisionFlag = "f32",
    machine: _MachineFlag = "cs2",
    pace: _PaceFlag = 0.0,
    execution: _ExecutionFlag = "weight-streaming",
    streams: _StreamsFlag = "ring",
    memoryx_gib: _MemoryFlag = 0.0,
    stall_seconds: _StallFlag = 630.0,
    lease_seconds: _LeaseFlag = 30,
    orphan_seconds: _OrphanSeconds = 120.0,
    preemption: _Preemption = False,
    history_days: _HistoryDays = 365.0,
    database: _Database = "",
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay in the foreground until interrupted.")
    ] = False,
    test_entry: Annotated[
        list[str] | None, typer.Option(hidden=True, help="role=module: another role module")
    ] = None,
) -> None:
    """Start the appliance."""
    settings = read_settings()
    directory = (data_dir or settings.data_dir).absolute()
    try:
        table = _machine(machine)
        options = ManagementOptions(
            data_dir=directory,
            runtime_root=settings.runtime_root(directory),
            host=host,
            port=port,
            rest_port=rest_port,
            num_systems=systems,
            cluster=_cluster(cluster),
            has_tls=tls,
            needs_token=tokens,
            precision=precision,
            wafer_bytes=free_bytes(parse_machine(table)),
            execution=execution,
            lease_seconds=lease_seconds,
            orphan_seconds=orphan_seconds,
            allows_preemption=preemption,
            history_days=history_days,
            database=database,
            machine=table,
            pace=pace,
            stall_seconds=stall_seconds,
            streams=streams,
            memoryx_bytes=int(memoryx_gib * _GIB),
            entry_modules=tuple(map(_entry, test_entry or ())),
        )
        if Instance(directory).is_running():
            raise Instance(directory).already_runs()
        if foreground:
            configure_logging(as_json=False, level=settings.log_level, stream=sys.stderr)
            asyncio.run(_serve(options, ready_descriptor=None))
            return
        _print_state(_start_in_background(options))
    except WscError as error:
        _fail(error)


def _machine(name_or_file: str) -> str:
    """Return the name of a machine, or as JSON the table that a file describes one with."""
    path = Path(name_or_file)
    if path.suffix not in (".yaml", ".yml", ".json"):
        return name_or_file
    try:
        description = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"The machine table {name_or_file} cannot be read: {error}.") from error
    if not isinstance(description, dict):
        raise UserError(
            f"The machine table {name_or_file} holds no mapping.",
            hint="Write fields, as in `sram_bytes_per_pe: 65536`, and `base` for the rest.",
        )
    return json.dumps(description)


def _entry(text: str) -> tuple[str, str]:
    role, _, module = text.partition("=")
    return role, module


def _cluster(path: Path | None) -> str:
    """Return the text of a cluster file, once it is known to describe a cluster."""
    if path is None:
        return ""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The cluster file {path} cannot be read: {error}.") from error
    parse_cluster(text, source=str(path))
    return text


@app.command()
def status(*, data_dir: _DataDir = None) -> None:
    """Say whether the appliance runs, and where."""
    instance = Instance((data_dir or read_settings().data_dir).absolute())
    state = instance.find_state()
    if state is None or not instance.is_running():
        typer.echo("The appliance is down.")
        raise typer.Exit(3)
    _print_state(state)


@app.command()
def down(*, data_dir: _DataDir = None) -> None:
    """Stop the appliance and everything it runs."""
    settings = read_settings()
    directory = (data_dir or settings.data_dir).absolute()
    try:
        was_running = Instance(directory).stop()
        runtime_root = settings.runtime_root(directory)
        was_running |= end_survivors(runtime_root, timeout_seconds=STOP_SECONDS)
    except WscError as error:
        _fail(error)
    shutil.rmtree(settings.runtime_root(directory), ignore_errors=True)
    typer.echo("The appliance is down." if was_running else "No appliance was running.")


@app.command(hidden=True)
def serve(options: str, ready_descriptor: int) -> None:
    """Be the appliance that `up` starts in the background."""
    configure_logging(as_json=True, level=read_settings().log_level, stream=sys.stderr)
    fields = json.loads(options)
    fields["data_dir"], fields["runtime_root"] = (
        Path(fields["data_dir"]),
        Path(fields["runtime_root"]),
    )
    fields["entry_modules"] = tuple(map(tuple, fields["entry_modules"]))
    fields["preload"] = tuple(fields["preload"])
    asyncio.run(_serve(ManagementOptions(**fields), ready_descriptor))


def _start_in_background(options: ManagementOptions) -> InstanceState:
    instance = Instance(options.data_dir)
    options.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    ready, theirs = os.pipe()
    fields = json.dumps(dataclasses.asdict(options), default=str)
    with instance.log_path.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "appliance", "serve", fields, str(theirs)],
            pass_fds=[theirs],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
    os.close(theirs)
    with os.fdopen(ready) as answer:
        text = answer.read()
    if not text:
        process.wait()
        raise ClusterError(
            f"The appliance ended with code {process.returncode} while starting.",
            hint=f"Its log is {instance.log_path}.",
        )
    fields_or_error = json.loads(text)
    if "error" in fields_or_error:
        raise ClusterError(fields_or_error["error"], hint=fields_or_error["hint"])
    return InstanceState(**fields_or_error)


async def _serve(options: ManagementOptions, ready_descriptor: int | None) -> None:
    try:
        await _run(options, ready_descriptor)
    except WscError as error:
        if ready_descriptor is None:
            raise
        text = json.dumps({"error": error.message, "hint": error.hint})
        os.write(ready_descriptor, text.encode())


async def _run(options: ManagementOptions, ready_descriptor: int | None) -> None:
    instance = Instance(options.data_dir)
    instance.acquire()
    listener = _listen(options.bind_host, options.rest_port)
    scheme = "https" if options.has_tls else "http"
    rest_url = f"{scheme}://{options.public_host}:{listener.getsockname()[1]}"
    management = Management(options, SystemClock())
    is_ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, is_ended.set)
    try:
        await management.start(dashboard_root=rest_url)
        state = InstanceState(
            pid=os.getpid(),
            address=management.address,
            rest_url=rest_url,
            config_path=str(management.config_path),
            runtime_root=str(options.runtime_root),
            num_systems=len(management.inventory.systems()),
        )
        instance.write_state(state)
        _announce(state, ready_descriptor)
        await _serve_rest(management, listener, is_ended)
    finally:
        await management.stop()
        instance.clear_state()


async def _serve_rest(
    management: Management, listener: socket.socket, is_ended: asyncio.Event
) -> None:
    tls = management.certificates
    services = ApiServices(
        state=management.state,
        access=management.access,
        jobs=management.jobs,
        edits=management.edits,
        inventory=management.inventory,
        activity=ActivityService(management.state, Policy()),
        sessions=management.sessions,
        systems=management.systems,
        queue=management.queue,
        logs=management.logs,
        feed=management.feed,
        collector=management.collector,
        has_tls=tls is not None,
    )
    rest = create_app(services, hosts=management.rest_hosts)
    install_pages(rest)
    config = uvicorn.Config(
        rest,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_REST_GRACE_SECONDS,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # ours do it
    serving = asyncio.create_task(server._serve(sockets=[listener]))
    await is_ended.wait()
    management.feed.close()  # or open streams would keep the server from ending
    server.should_exit = True
    await serving


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ClusterError(
            f"Port {port} at {host} cannot be used for REST: {error.strerror}.",
            hint="Choose another one with --rest-port.",
        ) from error
    return listener


def _announce(state: InstanceState, ready_descriptor: int | None) -> None:
    if ready_descriptor is None:
        _print_state(state)
        return
    os.write(ready_descriptor, json.dumps(dataclasses.asdict(state)).encode())
    os.close(ready_descriptor)


def _print_state(state: InstanceState) -> None:
    typer.echo(f"The appliance is up with {state.num_systems} system(s).")
    typer.echo(f"  address    {state.address}")
    typer.echo(f"  REST       {state.rest_url}/api/v1")
    typer.echo(f"  config_v2  {state.config_path}")
    typer.echo(f"Clients find it with CSCONFIG_PATH={state.config_path}")


def _fail(error: WscError) -> NoReturn:
    typer.echo(f"Error: {error}", err=True)
    if isinstance(error, InternalError):
        logger.error("Internal error", exc_info=error)
    raise typer.Exit(error.exit_code)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
