"""Logs of pods over REST: whole, the last lines, or followed live."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel

from appliance.api.entry import Entry, StreamAccess, enter, entry_router
from appliance.api.job_routes.jobs import JobPath
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.errors import UserError
from appliance.core.ids import JobId
from appliance.core.integers import MAX_POSITION, find_integer
from appliance.management.logs.log_files import (
    kept_bytes,
    kept_from,
    pieces,
    read_log,
    size_of,
    tail_offset,
)
from appliance.observability.metrics import LOG_FOLLOWERS

router = entry_router("logs")

MAX_BYTES = 4 << 20
"""Bytes of a log in one answer."""
_CHUNK_BYTES = 1 << 16
_TYPE = "text/plain; charset=utf-8"
_LOOK_SECONDS = 0.3
_QUIET_LOOKS = 50
"""Looks without news until a comment shows that the stream lives."""

PodPath = Annotated[str, Path(alias="pod", max_length=128)]
TailLines = Annotated[int, Query(ge=0, le=1_000_000)]
Offset = Annotated[int, Query(ge=0, le=1 << 50)]
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The log's bytes, as UTF-8",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class LogFile(BaseModel):
    """A log of a job."""

    pod: str
    """The pod; for a program inside a pod, the pod's name with the program's."""
    num_bytes: int
    """What is kept of it: the beginning of a long log is dropped."""


class LogList(BaseModel):
    """The logs of a job, by pod."""

    items: list[LogFile]


@router.get("/jobs/{job_id}/logs", responses=problems(403, 404))
def list_logs(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.LIST_LOGS)], services: Services
) -> LogList:
    """Return the logs that a job has; they are kept after it has ended."""
    logs = services.logs.logs(JobId(job_id))
    return LogList(items=[LogFile(pod=log.pod, num_bytes=kept_bytes(log.path)) for log in logs])


@router.get(
    "/jobs/{job_id}/logs/{pod}",
    responses={**problems(403, 404), **_TEXT},
    response_class=Response,
)
def get_log(
    job_id: JobPath,
    pod: PodPath,
    *,
    entry: Annotated[Entry, enter(rules.READ_LOGS)],
    services: Services,
    tail: TailLines | None = None,
    offset: Offset | None = None,
    download: bool = False,
) -> Response:
    """Return a log from an offset, or its last lines; 4 MiB at most in one answer.

    The header X-Next-Offset says where to go on. With `download`, all of it comes, as a file.
    """
    log = services.logs.find(JobId(job_id), pod)
    start = _start(log.path, tail, offset)
    if download:
        headers = {"content-disposition": f'attachment; filename="{log.pod}.log"'}
        whole = pieces(log.path, start, max_bytes=MAX_BYTES)
        return StreamingResponse(whole, media_type=_TYPE, headers=headers)
    start, data = read_log(log.path, start, MAX_BYTES)
    headers = {"x-next-offset": str(start + len(data)), "x-log-bytes": str(size_of(log.path))}
    return Response(data, media_type=_TYPE, headers=headers)


@router.get(
    "/jobs/{job_id}/logs/{pod}/stream",
    responses={**problems(403, 404), **_EVENTS},
    response_class=StreamingResponse,
)
async def follow_log(
    request: Request,
    job_id: JobPath,
    pod: PodPath,
    *,
    entry: Annotated[Entry, enter(rules.FOLLOW_LOG)],
    services: Services,
    tail: TailLines | None = 100,
    last_event_id: Annotated[str, Header(max_length=32)] = "",
) -> StreamingResponse:
    """Send a log's last lines and what is added to it, as server-sent events.

    Events: `lines` (`{"text"}`; its id is the offset behind it, with which a cut stream goes on)
    and `end`, when the job has ended.
    """
    log = await asyncio.to_thread(services.logs.find, JobId(job_id), pod)
    offset = find_integer(last_event_id, MAX_POSITION)
    start = await services.logs.read(_start, log.path, tail, offset)
    events = _counted(_follow(services, JobId(job_id), log.path, start, StreamAccess(request)))
    headers = {"x-accel-buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def _counted(events: AsyncIterator[str]) -> AsyncIterator[str]:
    with LOG_FOLLOWERS.track_inprogress():
        async for event in events:
            yield event


async def _follow(
    services: Services, job: JobId, path: FilePath, offset: int, access: StreamAccess
) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    num_quiet = 0
    while not services.feed.is_closed:
        # The phase comes first: what was printed before the end is then read after it.
        record = await asyncio.to_thread(services.jobs.find, job)
        is_over = record is None or record.phase.is_terminal
        num_quiet += 1
        while True:
            if not await access.is_allowed():  # here, as a busy log has always more to tell
                return
            offset, data = await services.logs.read(_read_lines, path, offset, is_over)
            if not data:
                break
            offset += len(data)
            text = json.dumps({"text": data.decode(errors="replace")})
            yield f"id: {offset}\nevent: lines\ndata: {text}\n\n"
            num_quiet = 0
        if is_over:
            yield f"id: {offset}\nevent: end\ndata: {{}}\n\n"
            return
        if num_quiet >= _QUIET_LOOKS:
            yield ": still here\n\n"
            num_quiet = 0
        await asyncio.sleep(_LOOK_SECONDS)


def _start(path: FilePath, tail: int | None, offset: int | None) -> int:
    if offset is not None:
        if offset > (size := size_of(path)):
            raise UserError(f"Offset {offset} is behind the log's {size} bytes.")
        return offset
    return kept_from(path) if tail is None else tail_offset(path, tail)


def _read_lines(path: FilePath, offset: int, is_over: bool) -> tuple[int, bytes]:
    """Return complete lines only, so that no character is split, unless the log has ended."""
    start, data = read_log(path, offset, _CHUNK_BYTES)
    end = data.rfind(b"\n") + 1
    if end == 0 and (is_over or len(data) == _CHUNK_BYTES):
        return start, data
    return start, data[:end] if not is_over or end else data
