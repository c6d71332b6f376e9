"""Traces of the simulated fabric, over REST: an SDK job's latest one, block by block.

Traces are not decompressed here: they are untrusted and may be large. Each answer is one read of a
bounded part of the file; docs/fabric-traces.md tells what is in it.
"""

from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.job_routes.jobs import JobPath
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.errors import ConflictError, NotFoundError
from appliance.core.ids import JobId
from appliance.wire.fabric_traces import MAX_BLOCKS, TRACE_FILE, TraceFile

router = entry_router("jobs")

_BINARY = "application/octet-stream"
_TYPED: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_PART: dict[int | str, dict[str, Any]] = {
    200: {"description": "Bytes of the trace, zlib", "content": {_BINARY: _TYPED}}
}
_WHOLE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The trace", "content": {_BINARY: _TYPED}}
}

Version = Annotated[str, Query(max_length=64)]
BlockPath = Annotated[int, Path(alias="number", ge=0, lt=MAX_BLOCKS)]


class FabricBlock(BaseModel):
    """A block of events that stands alone."""

    num_events: int
    first_cycle: int
    last_cycle: int


class FabricTrace(BaseModel):
    """A trace of the fabric; the clock's cycles are simulated."""

    version: str
    """Which trace; a later run's is another, and its blocks are asked for by another version."""
    num_bytes: int
    header_bytes: int
    blocks: list[FabricBlock]


@router.get("/jobs/{job_id}/fabric", responses=problems(400, 403, 404))
def get_fabric_trace(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.READ_CONFIGURATION)], services: Services
) -> FabricTrace:
    """Return of which blocks the latest trace of an SDK job consists."""
    path = _path(services, job_id)
    file = TraceFile(path)
    return FabricTrace(
        version=_version(path),
        num_bytes=path.stat().st_size,
        header_bytes=file.header_bytes,
        blocks=[
            FabricBlock(
                num_events=block.num_events,
                first_cycle=block.first_cycle,
                last_cycle=block.last_cycle,
            )
            for block in file.blocks
        ],
    )


@router.get(
    "/jobs/{job_id}/fabric/header",
    responses={**problems(400, 403, 404, 409), **_PART},
    response_class=Response,
)
def get_fabric_header(
    job_id: JobPath,
    entry: Annotated[Entry, enter(rules.READ_LOGS)],
    services: Services,
    version: Version,
) -> Response:
    """Return a trace's header: JSON, compressed with zlib as it is in the file."""
    return Response(_file(services, job_id, version).packed_header(), media_type=_BINARY)


@router.get(
    "/jobs/{job_id}/fabric/blocks/{number}",
    responses={**problems(400, 403, 404, 409), **_PART},
    response_class=Response,
)
def get_fabric_block(
    job_id: JobPath,
    number: BlockPath,
    entry: Annotated[Entry, enter(rules.READ_LOGS)],
    services: Services,
    version: Version,
) -> Response:
    """Return the events of a block: columns, compressed with zlib as they are in the file."""
    file = _file(services, job_id, version)
    if number >= len(file.blocks):
        raise NotFoundError(f"The trace has {len(file.blocks)} blocks; there is no block {number}.")
    return Response(file.packed_block(number), media_type=_BINARY)


@router.get(
    "/jobs/{job_id}/fabric/file",
    responses={**problems(403, 404), **_WHOLE},
    response_class=FileResponse,
)
def download_fabric_trace(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.READ_LOGS)], services: Services
) -> FileResponse:
    """Return the whole trace as a file, for `cs_trace`."""
    path = _path(services, job_id)
    return FileResponse(path, media_type=_BINARY, filename=f"{job_id}.trace")


def _file(services: Services, job_id: str, version: str) -> TraceFile:
    path = _path(services, job_id)
    if _version(path) != version:
        raise ConflictError(
            f"Job {job_id} has another trace by now.", hint=f"Read /jobs/{job_id}/fabric again."
        )
    return TraceFile(path)


def _path(services: Services, job_id: str) -> FilePath:
    job = services.jobs.load(JobId(job_id))
    path = FilePath(job.work_dir) / TRACE_FILE
    if not path.is_file():
        raise NotFoundError(
            f"Job {job_id} has no trace of the fabric.",
            hint="Run its program with WSC_FABRIC_TRACE=1, or compile it with --fabric-trace.",
        )
    return path


def _version(path: FilePath) -> str:
    found = path.stat()
    return f"{found.st_mtime_ns:x}-{found.st_size:x}"
