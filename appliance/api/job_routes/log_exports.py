"""Log exports over REST: one archive of a job's logs, gathered in the background."""

import datetime as dt
from typing import Annotated, Any

from fastapi import Path
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.job_routes.jobs import JobPath
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.ids import JobId
from appliance.management.logs.log_exports import Export, ExportRequest, ExportStatus

router = entry_router("logs")

ExportPath = Annotated[str, Path(alias="export_id", max_length=64)]
_ARCHIVE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The archive",
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class NewLogExport(BaseModel):
    """What to gather."""

    model_config = ConfigDict(extra="forbid")

    tasks: Annotated[list[Annotated[str, Field(max_length=32)]], Field(max_length=16)] = []
    """Only of these roles, as in `coordinator`; empty for all."""
    num_lines: Annotated[int, Field(ge=0, le=1 << 31)] = 0
    """Only so many last lines of each log; 0 for all."""
    with_artifacts: bool = False
    """What the compiler left, too."""
    with_pod_logs: bool = True


class LogExport(BaseModel):
    """An export."""

    id: str
    job: str
    status: ExportStatus
    detail: str
    """What was gathered, or why not."""
    num_bytes: int
    sha256: str
    """Of the archive, in hexadecimal digits; empty before it is there."""
    kept_until: dt.datetime

    @classmethod
    def of(cls, export: Export) -> "LogExport":
        """Return an export."""
        return cls(
            id=export.id,
            job=export.job,
            status=export.status,
            detail=export.detail,
            num_bytes=export.num_bytes,
            sha256=export.signature,
            kept_until=dt.datetime.fromisoformat(export.kept_until),
        )


@router.post("/jobs/{job_id}/log-exports", status_code=202, responses=problems(400, 403, 404))
def create_export(
    job_id: JobPath,
    wanted: NewLogExport,
    entry: Annotated[Entry, enter(rules.READ_LOGS)],
    services: Services,
) -> LogExport:
    """Begin to gather a job's logs into one archive."""
    export = ExportRequest(
        job=JobId(job_id),
        tasks=tuple(wanted.tasks),
        num_lines=wanted.num_lines,
        has_artifacts=wanted.with_artifacts,
        has_pod_logs=wanted.with_pod_logs,
    )
    return LogExport.of(services.exports.create(export))


@router.get("/log-exports/{export_id}", responses=problems(403, 404))
def get_export(
    export_id: ExportPath, entry: Annotated[Entry, enter(rules.READ_EXPORT)], services: Services
) -> LogExport:
    """Say how far an export is."""
    return LogExport.of(services.exports.load(export_id))


@router.get(
    "/log-exports/{export_id}/archive",
    responses={**problems(403, 404, 409), **_ARCHIVE},
    response_class=FileResponse,
)
def download_export(
    export_id: ExportPath, entry: Annotated[Entry, enter(rules.DOWNLOAD_EXPORT)], services: Services
) -> FileResponse:
    """Return the archive of an export that is completed."""
    export = services.exports.load(export_id)
    path = services.exports.archive_of(export)
    return FileResponse(path, media_type="application/zip", filename=f"{export.job}.zip")
