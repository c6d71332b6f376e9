"""`appliance up`: start the appliance, in the background or as this process."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from appliance.cli.errors import clear_errors
from appliance.cli.options.data_dir import DataDir, print_state
from appliance.cli.options.secret_options import no_database_password, no_otlp_password
from appliance.cli.options.setting_flags import with_settings
from appliance.cli.programs_to_run import Program, program_of
from appliance.core.cluster.identity import ROOT
from appliance.core.dataclass_json import to_json
from appliance.core.errors import ClusterError, UserError
from appliance.core.pods.pod_options import Device
from appliance.files.private import make_private
from appliance.management.cluster.cluster_file import parse_cluster
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.options.setting_field import from_settings
from appliance.management.options.settings_by_group import KUBERNETES, PROCESSES
from appliance.management.store.disk import disk_errors
from appliance.management.store.instance import Instance, InstanceState
from appliance.observability.logging import configure_logging
from appliance.settings import SECRET_VARIABLES, read_settings

_CALLBACKS = {"otlp": no_otlp_password, "database": no_database_password}


@clear_errors()
def up(
    *,
    context: typer.Context,
    data_dir: DataDir = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay in the foreground until interrupted.")
    ] = False,
    **flags: object,
) -> None:
    """Start the appliance."""
    settings = read_settings()
    directory = (data_dir or settings.data_dir).absolute()
    values = {name: _READERS.get(name, _as_it_is)(each) for name, each in flags.items()}
    values["otlp"] = values["otlp"] or settings.otlp_endpoint
    values["database"] = values["database"] or settings.database
    values["notify"] = values["notify"] or _named(settings.notify)
    values["oidc"] = values["oidc"] or _named(settings.oidc)
    options = from_settings(
        ManagementOptions,
        values,
        data_dir=directory,
        runtime_root=settings.runtime_root(directory),
    )
    _check_device(options)
    _warn_root(options)
    program = program_of(context)
    with disk_errors(options.data_dir):
        if options.nodes.launcher != KUBERNETES and Instance(options.data_dir).is_running():
            raise Instance(options.data_dir).already_runs()
        if not foreground:
            print_state(_start_in_background(options, program))
            return
    # They take seconds to import.
    from appliance.cli.serving import serve_appliance  # noqa: PLC0415
    from appliance.management.store.own_process import run_event_loop  # noqa: PLC0415

    configure_logging(as_json=False, level=settings.log_level, stream=sys.stderr)
    run_event_loop(serve_appliance(options, program, ready_descriptor=None))


def _check_device(options: ManagementOptions) -> None:
    """Raise `UserError` if systems should compute on a device that this machine lacks.

    Pods elsewhere find out by themselves: this machine says nothing of theirs.
    """
    if options.runs.csx_device != Device.CUDA or options.nodes.launcher != PROCESSES:
        return
    import torch  # noqa: PLC0415 - takes a second, which only this option pays

    if not torch.cuda.is_available():
        raise UserError(
            f"PyTorch {torch.__version__} finds no CUDA device on this machine.",
            hint="Leave out --csx-device, or install its driver and a build of PyTorch with CUDA.",
        )


def _warn_root(options: ManagementOptions) -> None:
    """Warn that an appliance started by root serves other users differently than expected."""
    if os.getuid() != ROOT or options.trust.needs_token:
        return
    others = (
        "every user of this machine, each as themselves"
        if options.trust.serves_local_users
        else "root alone; add --local-users for the other users of this machine"
    )
    typer.echo(
        f"Warning: this appliance runs as root and asks for no tokens. It serves {others}, or "
        "--tls --tokens for everybody who has a token.",
        err=True,
    )


def _start_in_background(options: ManagementOptions, program: Program) -> InstanceState:
    instance = Instance(options.data_dir)
    make_private(options.data_dir)
    ready, theirs = os.pipe()
    told = os.memfd_create("options", os.MFD_CLOEXEC)
    os.write(told, to_json(options).encode())
    with instance.open_log() as log:
        process = program.start(
            ["serve", str(told), str(theirs)],
            descriptors=[told, theirs],
            log=log,
            environment=_environment_of_serve(),
        )
    os.close(told)
    os.close(theirs)
    with os.fdopen(ready) as answer:
        text = answer.read()
    if not text:
        raise ClusterError(
            f"The appliance ended with code {process.wait()} while starting.",
            hint=f"Its log is {instance.log_path}.",
        )
    fields_or_error = json.loads(text)
    if "error" in fields_or_error:
        raise ClusterError(fields_or_error["error"], hint=fields_or_error["hint"])
    return InstanceState.from_dict(fields_or_error)


def _environment_of_serve() -> dict[str, str]:
    """Return our environment without variables that are options, since pods would inherit them."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    for name in SECRET_VARIABLES:
        environment.pop(name, None)
    return environment


def _machine(name_or_file: str) -> str:
    """Return the name of a machine, or as JSON the table that a file describes one with."""
    path = Path(name_or_file)
    if path.suffix not in (".yaml", ".yml", ".json"):
        return name_or_file
    try:
        description = yaml.safe_load(path.read_text())
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise UserError(f"The machine table {name_or_file} cannot be read: {error}.") from error
    if not isinstance(description, dict):
        raise UserError(
            f"The machine table {name_or_file} holds no mapping.",
            hint="Write fields, as in `sram_bytes_per_pe: 65536`, and `base` for the rest.",
        )
    return json.dumps(description)


def _cluster(path: Path | None) -> str:
    """Return the text of a cluster file, once it is known to describe a cluster."""
    if text := _text_of(path, "cluster file"):
        parse_cluster(text, source=str(path))
    return text


def _kubernetes(path: Path | None) -> str:
    return _text_of(path, "Kubernetes settings")


def _text_of(path: Path | None, what: str) -> str:
    """Return the content of a file; empty if none is given."""
    if path is None:
        return ""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The {what} {path} cannot be read: {error}.") from error


def _absolute(path: Path | None) -> str:
    return str(path.absolute()) if path else ""


def _named(name: str) -> str:
    """Return the absolute path of a file that the environment names, if it names one."""
    return _absolute(Path(name) if name else None)


def _as_it_is(value: object) -> object:
    return value


# `Any`: a flag's value has the type of its setting.
_READERS: Mapping[str, Callable[[Any], object]] = {
    "cluster": _cluster,
    "machine": _machine,
    "kubernetes": _kubernetes,
    "certificates": _absolute,
    "notify": _absolute,
    "oidc": _absolute,
}
"""What a setting is made from, where that is not the flag's value: files, which are read here, as
management has another directory and may have other rights."""

with_settings(ManagementOptions, callbacks=_CALLBACKS)(up)
