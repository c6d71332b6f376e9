"""`csctl check-volumes`: compares the volumes of this user node with the cluster's."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from appliance.core.errors import UserError
from csctl.command_line.flags import OutputOption
from csctl.command_line.invocation import Invocation
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.table import Column, render
from protos.csctl.resources_pb2 import Volume, VolumeList


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A volume and what is wrong with it here; nothing, if it is valid."""

    volume: Volume
    problem: str

    @property
    def path(self) -> str:
        """Where jobs see it."""
        kind = self.volume.WhichOneof("volumeSource")
        source = self.volume.nfs if kind == "nfs" else self.volume.host_path
        return source.container_path


_COLUMNS: tuple[Column[Check], ...] = (
    Column(header="NAME", cell=lambda check: check.volume.meta.name),
    Column(header="CONTAINERPATH", cell=lambda check: check.path),
    Column(header="VALID", cell=lambda check: "no" if check.problem else "yes"),
    Column(header="NOTES", cell=lambda check: check.problem),
)


def check_volumes(invocation: Invocation, output: OutputOption = OutputFormat.TABLE) -> None:
    """Check that this user node sees the volumes that jobs see; 2 if it does not."""
    with invocation.connect() as client:
        volumes = client.get("volumes", VolumeList).items
    mounts = _mounts()
    checks = [Check(volume=each, problem=_problem(each, mounts)) for each in volumes]
    for check in checks:
        properties = check.volume.meta.properties
        properties["valid"] = "no" if check.problem else "yes"
        properties["notes"] = check.problem
    table = partial(render, _COLUMNS, checks)
    invocation.show_list(volumes, table=table, output=output)
    bad = [check.volume.meta.name for check in checks if check.problem]
    if bad:
        raise UserError(
            f"{len(bad)} of {len(checks)} volume(s) are not valid here: {', '.join(bad)}.",
            hint="Mount them as the table of `csctl get volumes` says.",
        )


def _mounts() -> Sequence[tuple[str, str]]:
    """Return (mount point, source) of every mounted file system."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    fields = [line.split(" ") for line in lines]
    return [(_unescaped(each[1]), _unescaped(each[0])) for each in fields]


def _unescaped(text: str) -> str:
    """Undo the octal escapes of /proc/mounts: blanks, tabs, newlines and backslashes."""
    return text.encode().decode("unicode_escape")


def _problem(volume: Volume, mounts: Sequence[tuple[str, str]]) -> str:
    path = Check(volume=volume, problem="").path
    if not Path(path).is_dir():
        return f"there is no directory {path}"
    if not os.access(path, os.R_OK | os.X_OK):
        return f"you may not read {path}"
    if volume.WhichOneof("volumeSource") != "nfs":
        return ""
    nfs = volume.nfs
    if nfs.server in (socket.gethostname(), "localhost") and nfs.server_path == path:
        return ""  # this node is the server itself
    wanted = f"{nfs.server}:{nfs.server_path}"
    sources = [source for point, source in mounts if point == path]
    return "" if wanted in sources else f"{path} is not mounted from {wanted}"
