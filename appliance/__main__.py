"""The composition root and its command line: `appliance up | status | down`."""

import asyncio
import contextlib
import dataclasses
import faulthandler
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn, TypedDict

import typer
import uvicorn
import yaml

from appliance.api.app import create_app
from appliance.api.services import ApiServices
from appliance.api.slow_senders import MAX_CONNECTIONS, TimedHttp
from appliance.cli.access import token_app, user_app
from appliance.cli.backups import backup, restore
from appliance.cli.certificates import certificates_app
from appliance.cli.node import node
from appliance.cli.proxy import proxy
from appliance.cli.secret_options import no_database_password, no_otlp_password
from appliance.cluster.processes import end_survivors
from appliance.core.clock import SystemClock
from appliance.core.cluster.identity import ROOT
from appliance.core.errors import ClusterError, InternalError, UserError, WscError
from appliance.dashboard.pages import install_pages
from appliance.files.private import keep_private, make_private
from appliance.management.access.certificate_reload import Renewal
from appliance.management.background.estimates import Estimates
from appliance.management.cluster.cluster_file import parse_cluster
from appliance.management.front.sni_proxy import listen
from appliance.management.kubernetes.kubernetes_side import Candidacy
from appliance.management.logs.log_retention import LogLimits
from appliance.management.options import KUBERNETES, PROCESSES, ManagementOptions
from appliance.management.server import Management
from appliance.management.store.databases import await_database
from appliance.management.store.disk import storage_errors
from appliance.management.store.instance import STOP_SECONDS, Instance, InstanceState
from appliance.management.store.kept_ports import Ports, await_free
from appliance.observability.logging import configure_logging
from appliance.settings import SECRET_VARIABLES, Settings, read_settings
from appliance.wafer.machine import parse_machine
from appliance.wafer.timing.sample_memory import free_bytes

logger = logging.getLogger(__name__)

app = typer.Typer(
    help="Run an open wafer-scale cluster appliance on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command("node")(node)
app.command("proxy")(proxy)
app.command("backup")(backup)
app.command("restore")(restore)
app.add_typer(token_app, name="token")
app.add_typer(user_app, name="user")
app.add_typer(certificates_app, name="certificates")

_GIB, _MIB = 1 << 30, 1 << 20
_DAY_SECONDS = 86_400.0
_DATABASE_SECONDS = 60.0
"""How long a management in the foreground waits for its database, which may start beside it."""

_REST_GRACE_SECONDS = 3
"""How long REST requests may take to end when the appliance does."""

_DataDir = Annotated[
    Path | None, typer.Option(help="Where everything is kept.", show_default="per XDG")
]

_StreamsFlag = Annotated[
    str, typer.Option(help="Tensors go by ring, mapped (no copy), network or network-tls.")
]
_DeviceFlag = Annotated[str, typer.Option(help="What systems compute on: cpu or cuda.")]
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

_PublicName = Annotated[
    str, typer.Option(help="Name that clients are told.", show_default="from --host")
]
_PublicPort = Annotated[int, typer.Option(help="Port that clients are told; 0: that of --port.")]
_Tls = Annotated[
    bool, typer.Option("--tls", help="Talk TLS, on one port for all that clients need.")
]
_CertificatesDir = Annotated[
    Path | None,
    typer.Option(help="Directory with ca.crt, tls.crt and tls.key.", show_default="our own"),
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
_Tokens = Annotated[
    bool,
    typer.Option("--tokens", help="Want a token of `appliance token` with every call; with --tls."),
]
_LocalUsers = Annotated[
    bool,
    typer.Option(
        "--local-users",
        help="Without tokens, as root: serve every user of this machine, as the kernel names them.",
    ),
]
_Foreground = Annotated[
    bool, typer.Option("--foreground", help="Stay in the foreground until interrupted.")
]
_TestEntry = Annotated[
    list[str] | None, typer.Option(hidden=True, help="role=module: another role module")
]
_LogDays = Annotated[
    float, typer.Option(help="Remove logs of jobs that ended longer ago; 0 keeps all.")
]
_LogGib = Annotated[
    float, typer.Option(help="Remove the oldest logs of ended jobs beyond so much; 0 keeps all.")
]
_PodLogMib = Annotated[
    float, typer.Option(help="Drop the oldest lines of a running pod's log beyond so much.")
]
_Otlp = Annotated[
    str,
    typer.Option(
        help="Send traces to this OTLP receiver over HTTP.",
        show_default="OTEL_EXPORTER_OTLP_ENDPOINT, or none",
        callback=no_otlp_password,
    ),
]
_DiskReserve = Annotated[
    float,
    typer.Option(
        help="MiB that must be free in the data directory, at most a twentieth of its disk, for "
        "jobs to start; 0 sets no limit."
    ),
]
_Notify = Annotated[
    Path | None, typer.Option(help="YAML file: mail server, targets told of every job.")
]
_Database = Annotated[
    str,
    typer.Option(
        help="postgresql+psycopg://... to use instead of SQLite; without a password.",
        show_default="",
        callback=no_database_password,
    ),
]
_Launcher = Annotated[
    str, typer.Option(help="Pods run as processes here, by agents that join, or on kubernetes.")
]
_InnerHost = Annotated[
    str,
    typer.Option(
        help="Name or address of this machine for other nodes. At an address only that one is "
        "listened at, for a name all of this machine's.",
        show_default="none",
    ),
]
_InnerPort = Annotated[int, typer.Option(help="Port for pods on other nodes; 0 for any.")]
_Kubernetes = Annotated[
    Path | None,
    typer.Option(help="YAML file with what --launcher kubernetes has to know of the cluster."),
]
_NodePort = Annotated[int, typer.Option(help="Port at which agents join; 0 for any.")]
_NodeGrace = Annotated[
    float, typer.Option(help="How long a node may be away before its jobs fail.")
]
_Preemption = Annotated[
    bool, typer.Option("--preemption", help="Let urgent jobs stop preemptible ones.")
]


@contextlib.contextmanager
def _clear_errors() -> Iterator[None]:
    """End the command with one line for an error that has a sentence."""
    try:
        yield
    except WscError as error:
        _fail(error)


class _Places(TypedDict):
    """Directories of an appliance, as its options call them."""

    data_dir: Path
    runtime_root: Path


def _places(data_dir: Path | None, settings: Settings) -> _Places:
    directory = (data_dir or settings.data_dir).absolute()
    return {"data_dir": directory, "runtime_root": settings.runtime_root(directory)}


@app.command()
@_clear_errors()
def up(
    *,
    data_dir: _DataDir = None,
    systems: _Systems = None,
    cluster: _ClusterFile = None,
    host: Annotated[str, typer.Option(help="Name or address to listen at.")] = "localhost",
    port: Annotated[int, typer.Option(help="Port for clients; 0 for any.")] = 9000,
    rest_port: Annotated[int, typer.Option(help="Port for REST; 0 for any.")] = 9001,
    public_name: _PublicName = "",
    public_port: _PublicPort = 0,
    tls: _Tls = False,
    certificates: _CertificatesDir = None,
    tokens: _Tokens = False,
    local_users: _LocalUsers = False,
    precision: _PrecisionFlag = "f32",
    machine: _MachineFlag = "cs2",
    pace: _PaceFlag = 0.0,
    execution: _ExecutionFlag = "weight-streaming",
    streams: _StreamsFlag = "ring",
    csx_device: _DeviceFlag = "cpu",
    memoryx_gib: _MemoryFlag = 0.0,
    stall_seconds: _StallFlag = 630.0,
    lease_seconds: _LeaseFlag = 30,
    orphan_seconds: _OrphanSeconds = 120.0,
    launcher: _Launcher = "processes",
    inner_host: _InnerHost = "",
    inner_port: _InnerPort = 9003,
    node_port: _NodePort = 9002,
    node_grace_seconds: _NodeGrace = 20.0,
    preemption: _Preemption = False,
    history_days: _HistoryDays = 365.0,
    log_days: _LogDays = 90.0,
    log_gib: _LogGib = 50.0,
    pod_log_mib: _PodLogMib = 256.0,
    disk_reserve_mib: _DiskReserve = 512.0,
    notify: _Notify = None,
    otlp: _Otlp = "",
    database: _Database = "",
    kubernetes: _Kubernetes = None,
    foreground: _Foreground = False,
    test_entry: _TestEntry = None,
) -> None:
    """Start the appliance."""
    settings = read_settings()
    options = ManagementOptions(
        **_places(data_dir, settings),
        host=host,
        port=port,
        rest_port=rest_port,
        num_systems=systems,
        cluster=_cluster(cluster),
        public_name=public_name,
        public_port=public_port,
        **_trust(tls, certificates, tokens, local_users),
        precision=precision,
        wafer_bytes=free_bytes(parse_machine(table := _machine(machine))),
        execution=execution,
        lease_seconds=lease_seconds,
        orphan_seconds=orphan_seconds,
        allows_preemption=preemption,
        **_retention(history_days, log_days, log_gib, pod_log_mib, disk_reserve_mib),
        otlp=otlp or settings.otlp_endpoint,
        notify=str(notify.absolute()) if notify else "",
        database=database or settings.database,
        machine=table,
        pace=pace,
        stall_seconds=stall_seconds,
        streams=streams,
        csx_device=csx_device,
        memoryx_bytes=int(memoryx_gib * _GIB),
        launcher=launcher,
        inner_host=inner_host,
        inner_port=inner_port,
        node_port=node_port,
        node_grace_seconds=node_grace_seconds,
        entry_modules=tuple(map(_entry, test_entry or ())),
        kubernetes=_text_of(kubernetes, "Kubernetes settings"),
    )
    _begin(options, log_level=settings.log_level, foreground=foreground)


def _warn_root(options: ManagementOptions) -> None:
    """Say whom an appliance of root serves, which is not what one may expect."""
    if os.getuid() != ROOT or options.needs_token:
        return
    others = (
        "every user of this machine, each as themselves"
        if options.serves_local_users
        else "root alone; add --local-users for the other users of this machine"
    )
    typer.echo(
        f"Warning: this appliance runs as root and asks for no tokens. It serves {others}, or "
        "--tls --tokens for everybody who has a token.",
        err=True,
    )


def _begin(options: ManagementOptions, *, log_level: int, foreground: bool) -> None:
    _warn_root(options)
    with storage_errors(options.data_dir, options.database):
        if options.launcher != KUBERNETES and Instance(options.data_dir).is_running():
            raise Instance(options.data_dir).already_runs()
        if not foreground:
            _print_state(_start_in_background(options))
            return
    configure_logging(as_json=False, level=log_level, stream=sys.stderr)
    asyncio.run(_serve(options, ready_descriptor=None))


class _Trust(TypedDict):
    """How callers and the appliance prove who they are."""

    has_tls: bool
    certificates: str
    needs_token: bool
    serves_local_users: bool


def _trust(tls: bool, certificates: Path | None, tokens: bool, local_users: bool) -> _Trust:
    return {
        "has_tls": tls,
        "certificates": str(certificates.absolute()) if certificates else "",
        "needs_token": tokens,
        "serves_local_users": local_users,
    }


class _Retention(TypedDict):
    """How much of the disk is used for how long."""

    history_days: float
    log_limits: LogLimits
    disk_reserve_bytes: int


def _retention(
    history_days: float, log_days: float, log_gib: float, pod_mib: float, reserve_mib: float
) -> _Retention:
    limits = LogLimits(
        pod_bytes=int(pod_mib * _MIB),
        total_bytes=int(log_gib * _GIB),
        age_seconds=log_days * _DAY_SECONDS,
    )
    return {
        "history_days": history_days,
        "log_limits": limits,
        "disk_reserve_bytes": int(reserve_mib * _MIB),
    }


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
    if text := _text_of(path, "cluster file"):
        parse_cluster(text, source=str(path))
    return text


def _text_of(path: Path | None, what: str) -> str:
    """Return what a file holds; nothing if there is none."""
    if path is None:
        return ""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The {what} {path} cannot be read: {error}.") from error


@app.command()
def status(*, data_dir: _DataDir = None) -> None:
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
    _print_state(state)


@app.command()
def down(*, data_dir: _DataDir = None) -> None:
    """Stop the appliance and everything it runs."""
    settings = read_settings()
    directory = (data_dir or settings.data_dir).absolute()
    with _clear_errors():
        was_running = Instance(directory).stop()
        runtime_root = settings.runtime_root(directory)
        was_running |= end_survivors(runtime_root, timeout_seconds=STOP_SECONDS)
    shutil.rmtree(settings.runtime_root(directory), ignore_errors=True)
    typer.echo("The appliance is down." if was_running else "No appliance was running.")


@app.command(hidden=True)
def serve(options: int, ready_descriptor: Annotated[int | None, typer.Argument()] = None) -> None:
    """Be the appliance that `up` starts in the background, and tells `up` of itself.

    Its options, some of them secrets, come as JSON by a descriptor, which stays open: a process
    that begins anew reads them again.
    """
    configure_logging(as_json=True, level=read_settings().log_level, stream=sys.stderr)
    fields = json.loads(os.pread(options, os.fstat(options).st_size, 0))
    fields["data_dir"], fields["runtime_root"] = (
        Path(fields["data_dir"]),
        Path(fields["runtime_root"]),
    )
    fields["entry_modules"] = tuple(map(tuple, fields["entry_modules"]))
    fields["log_limits"] = LogLimits(**fields["log_limits"])
    fields["preload"] = tuple(fields["preload"])
    asyncio.run(_serve(ManagementOptions(**fields), ready_descriptor))


def _start_in_background(options: ManagementOptions) -> InstanceState:
    instance = Instance(options.data_dir)
    make_private(options.data_dir)
    ready, theirs = os.pipe()
    told = os.memfd_create("options", os.MFD_CLOEXEC)
    os.write(told, json.dumps(dataclasses.asdict(options), default=str).encode())
    with instance.open_log() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "appliance", "serve", str(told), str(theirs)],
            pass_fds=[told, theirs],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env=_environment_of_serve(),
        )
    os.close(told)
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
    return InstanceState.from_dict(fields_or_error)


def _environment_of_serve() -> dict[str, str]:
    """Return our environment without what the options say, since pods would inherit it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    for name in SECRET_VARIABLES:
        environment.pop(name, None)
    return environment


async def _serve(options: ManagementOptions, ready_descriptor: int | None) -> None:
    faulthandler.enable()  # else a fault, as when a file that is mapped is cut, ends us in silence
    keep_private(shares_with_group=options.launcher != PROCESSES)
    try:
        with storage_errors(options.data_dir, options.database):
            await _run(options, ready_descriptor)
    except WscError as error:
        if ready_descriptor is None:
            raise
        logger.critical("The appliance does not start", extra={"why": str(error)})
        text = json.dumps({"error": error.message, "hint": error.hint})
        os.write(ready_descriptor, text.encode())


async def _run(options: ManagementOptions, ready_descriptor: int | None) -> None:
    is_ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, is_ended.set)
    if options.launcher != KUBERNETES:
        await _run_alone(options, ready_descriptor, is_ended)
        return
    candidacy = await asyncio.to_thread(Candidacy, options.kubernetes, SystemClock())
    try:
        if await _leads(candidacy, is_ended):
            await _run_alone(options, ready_descriptor, is_ended, candidacy)
    finally:
        await asyncio.to_thread(candidacy.withdraw)


async def _leads(candidacy: Candidacy, is_ended: asyncio.Event) -> bool:
    """Wait until this management leads; False if it is to end before."""
    leading = asyncio.create_task(asyncio.to_thread(candidacy.lead))
    ending = asyncio.create_task(is_ended.wait())
    await asyncio.wait((leading, ending), return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if not leading.done():
        await asyncio.to_thread(candidacy.withdraw)
    return await leading and not is_ended.is_set()


async def _run_alone(
    options: ManagementOptions,
    ready_descriptor: int | None,
    is_ended: asyncio.Event,
    candidacy: Candidacy | None = None,
) -> None:
    """Be the one management of a data directory, until the end is asked for."""
    instance = Instance(options.data_dir)
    if candidacy is None:  # else the lease says who is the one
        instance.acquire()
        options = await asyncio.to_thread(_with_ports, options, instance.kept_ports())
    if ready_descriptor is None and options.database:  # else somebody waits for a word
        seconds = _DATABASE_SECONDS
        if not await await_database(options.database, is_ended, seconds=seconds):
            return
    listener = listen(options.bind_host, options.rest_port, option="--rest-port")
    scheme = "https" if options.has_tls else "http"
    rest_url = f"{scheme}://{options.public_host}:{listener.getsockname()[1]}"
    management = Management(options, SystemClock(), candidacy)
    try:
        await management.start(rest_url, rest_address=listener.getsockname()[:2])
        state = InstanceState(
            pid=os.getpid(),
            address=management.address,
            rest_url=rest_url,
            config_path=str(management.config_path),
            runtime_root=str(options.runtime_root),
            num_systems=len(management.inventory.systems()),
            join_address=management.join_address,
            ports=dataclasses.replace(management.ports, rest_port=listener.getsockname()[1]),
        )
        listener.listen()  # before anybody knows of it: who calls at once waits, and is not refused
        instance.write_state(state)
        _announce(state, ready_descriptor)
        await _serve_rest(management, listener, is_ended)
    finally:
        await management.stop()
        if management.is_up:  # else an earlier one's ports are still to be taken
            instance.clear_state()


def _with_ports(options: ManagementOptions, kept: Ports) -> ManagementOptions:
    """Return the options with the ports that a predecessor leaves; raises if they are taken."""
    asked = Ports(**{each.name: getattr(options, each.name) for each in dataclasses.fields(Ports)})
    data_dir = str(options.data_dir)
    await_free(options.bind_host, asked, kept, data_dir=data_dir, clock=SystemClock())
    return dataclasses.replace(options, **dataclasses.asdict(asked.with_kept(kept)))


async def _serve_rest(
    management: Management, listener: socket.socket, is_ended: asyncio.Event
) -> None:
    tls = management.certificates
    services = ApiServices(
        state=management.state,
        access=management.access,
        peers=management.peers,
        jobs=management.jobs,
        edits=management.edits,
        inventory=management.inventory,
        activity=management.activity,
        sessions=management.sessions,
        systems=management.systems,
        queue=management.queue,
        logs=management.logs,
        exports=management.exports,
        drivers=management.drivers,
        feed=management.feed,
        gate=management.gate,
        estimates=(estimates := Estimates()),
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
        http=TimedHttp,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=_REST_GRACE_SECONDS,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
    if tls is not None:
        config.load()
        assert config.ssl is not None
        Renewal(tls).follow(config.ssl)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # ours do it
    serving = asyncio.create_task(server._serve(sockets=[listener]))
    await is_ended.wait()
    estimates.close()
    management.feed.close()  # or open streams would keep the server from ending
    server.should_exit = True
    await serving


def _announce(state: InstanceState, ready_descriptor: int | None) -> None:
    if ready_descriptor is None:
        _print_state(state)
        return
    os.write(ready_descriptor, json.dumps(dataclasses.asdict(state)).encode())
    os.close(ready_descriptor)


def _print_state(state: InstanceState) -> None:
    typer.echo(f"The appliance is up with {state.num_systems} system(s).")
    typer.echo(f"  address    {state.address}")
    typer.echo(f"  dashboard  {state.rest_url}/")
    typer.echo(f"  REST       {state.rest_url}/api/v1")
    typer.echo(f"  config_v2  {state.config_path}")
    if state.join_address:
        typer.echo(f"  nodes join {state.join_address}")
    typer.echo(f"Clients find it with CSCONFIG_PATH={state.config_path}")


def _fail(error: WscError) -> NoReturn:
    typer.echo(f"Error: {error}", err=True)
    if isinstance(error, InternalError):
        logger.error("Internal error", exc_info=error)
    raise typer.Exit(error.exit_code)


def main() -> None:
    """Run the command line."""
    keep_private()
    app()


if __name__ == "__main__":
    main()
