"""`csctl log-export` and `debug-artifact`: an archive of a job's logs, and its retention."""

import datetime as dt
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from appliance.core.errors import ClusterError, UserError
from csctl.command_line.flags import JobNameArgument, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument, option
from csctl.commands.runs.named_runs import find_job
from csctl.connection.client import ClusterClient
from csctl.names import parse_job_name
from csctl.watching import looks
from protos.csctl import api_pb2 as pb
from protos.csctl.api_pb2_grpc import CsCtlV1Stub

group = new_group("Manage debug artifacts.")

ExportArgument = Annotated[str, argument("EXPORT", help="export-..., as `log-export` names it.")]

_LOOK_SECONDS = 0.2
_MEGABYTE = 1_000_000


def export_logs(
    invocation: Invocation,
    name: JobNameArgument,
    *,
    binaries: Annotated[
        bool, option("-b", "--binaries", help="What the compiler left, too.")
    ] = False,
    compile_artifacts: Annotated[
        bool, option("-c", "--compile-artifacts", help="What the compiler left, too, as with -b.")
    ] = False,
    tasks: Annotated[
        str,
        option("--tasks", metavar="ROLE,...", help="Logs of these roles or pods only: chief-0."),
    ] = "",
    num_lines: Annotated[
        int, option("--num-lines", min=0, metavar="N", help="Last N lines of each; 0 for all.")
    ] = 0,
    skip_cluster_logs: Annotated[
        bool, option("--skip-cluster-logs", help="Leave the pods' logs out.")
    ] = False,
    timeout: Annotated[
        int, option("--timeout", min=1, metavar="SECONDS", help="How long to wait for the archive.")
    ] = 600,
    path: Annotated[
        Path, option("-p", "--path", metavar="DIR", help="Where to put it; made if missing.")
    ] = Path(),
) -> None:
    """Gather a job's logs and download them as one archive."""
    wanted = parse_job_name(name)
    request = pb.CreateLogExportRequest(
        binaries=binaries,
        include_compile_artifacts=binaries or compile_artifacts,
        num_lines=num_lines,
        skip_cluster_logs=skip_cluster_logs,
        timeout_seconds=timeout,
        tasks=tasks,
        export_target_type=pb.EXPORT_TARGET_TYPE_CLIENT_LOCAL,
    )
    with invocation.connect(wanted.session) as client:
        request.name = find_job(invocation, client, wanted)
        target = path / f"{request.name}.zip"
        invocation.write("Gathering log data within cluster...")
        export_id = client.call(CsCtlV1Stub(client.channel).CreateLogExport, request).export_id
        _wait(client, export_id, timeout)
        invocation.write("Starting a fresh download of log archive.")
        num_bytes = _download(client, export_id, target)
    invocation.write(f"Downloaded {num_bytes / _MEGABYTE:.2f} MB.")
    invocation.write(f"Export: {export_id}")
    invocation.write(f"Logs archive: {target if target.is_absolute() else f'./{target}'}")


@command(group, "get", example="csctl debug-artifact get export-0123456789abcdef")
def get_artifact(invocation: Invocation, export: ExportArgument) -> None:
    """Show until when an export is kept."""
    with invocation.connect() as client:
        request = pb.GetDebugArtifactStatusRequest(export_id=export)
        reply = client.call(CsCtlV1Stub(client.channel).GetDebugArtifactStatus, request)
    until = reply.retention_deadline.ToDatetime(tzinfo=dt.UTC)
    invocation.write(f"{export} is kept until {until:%Y-%m-%dT%H:%M:%SZ}")


@command(group, "update", example="csctl debug-artifact update export-0123456789abcdef --days 30")
def update_artifact(
    invocation: Invocation,
    export: ExportArgument,
    days: Annotated[
        int, option("--days", min=1, max=3650, metavar="N", help="Keep it N days from now.")
    ] = 7,
) -> None:
    """Change until when an export is kept."""
    request = pb.UpdateDebugArtifactStatusRequest(export_id=export)
    request.retention_deadline.FromDatetime(invocation.now() + dt.timedelta(days=days))
    with invocation.connect() as client:
        stub = CsCtlV1Stub(client.channel)
        invocation.write(client.call(stub.UpdateDebugArtifactStatus, request).message)


def _wait(client: ClusterClient, export_id: str, timeout_seconds: int) -> None:
    stub, request = CsCtlV1Stub(client.channel), pb.GetLogExportRequest(export_id=export_id)
    fetched = looks(lambda: client.call(stub.GetLogExport, request), interval_seconds=_LOOK_SECONDS)
    for number, reply in enumerate(fetched):
        if reply.status == pb.LOG_EXPORT_STATUS_COMPLETED:
            return
        if reply.status == pb.LOG_EXPORT_STATUS_FAILED:
            raise ClusterError(f"Export {export_id} has failed: {reply.status_detail}.")
        if number * _LOOK_SECONDS > timeout_seconds:
            raise ClusterError(
                f"Export {export_id} is not complete after {timeout_seconds} seconds.",
                hint="Give it longer with --timeout.",
            )


def _download(client: ClusterClient, export_id: str, target: Path) -> int:
    digest, num_bytes, signature = hashlib.sha256(), 0, ""
    partial = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            for page in _pages(client, export_id):
                file.write(page.chunk)
                digest.update(page.chunk)
                num_bytes, signature = num_bytes + len(page.chunk), page.signature
        if digest.hexdigest() != signature:
            raise ClusterError(
                f"The archive of {export_id} did not arrive as it was sent.", hint="Try again."
            )
        partial.replace(target)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)
    return num_bytes


def _pages(client: ClusterClient, export_id: str) -> Iterator[pb.DownloadLogExportResponse]:
    stub, request = CsCtlV1Stub(client.channel), pb.DownloadLogExportRequest(export_id=export_id)
    while True:
        page = client.call(stub.DownloadLogExport, request)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token
