"""The placement of a job's layer steps on the wafer, over REST."""

from pathlib import Path
from typing import Annotated

from pydantic import TypeAdapter

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.job_routes.jobs import JobPath, RunSessionNumber
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.errors import NotFoundError
from appliance.core.ids import JobId
from appliance.wafer.timing.grid import WaferPicture
from appliance.wire.profiles import find_wafer_picture, pictured_sessions

router = entry_router("jobs")

_PICTURE = TypeAdapter(WaferPicture)


@router.get("/jobs/{job_id}/wafer", responses=problems(404))
def get_wafer(
    job_id: JobPath,
    entry: Annotated[Entry, enter(rules.READ_JOB)],
    services: Services,
    session: RunSessionNumber = None,
) -> WaferPicture:
    """Return where the layer steps of a session lie on the wafer and how busy they keep it.

    All of it is simulated. Without a session it is the last one that has a picture.
    """
    work_dir = Path(services.jobs.load(JobId(job_id)).work_dir)
    number = session or max(pictured_sessions(work_dir), default=1)
    text = find_wafer_picture(work_dir, number)
    if text is None and session is not None:
        services.jobs.run_sessions.one(JobId(job_id), session)
        raise NotFoundError(
            f"Session {session} of job {job_id} has no picture of the wafer.",
            hint="A session has one once its program is loaded, if any of it runs on the wafer.",
        )
    if text is None:
        raise NotFoundError(
            f"Job {job_id} has no picture of the wafer.",
            hint="Execute jobs have one once a program is loaded.",
        )
    return _PICTURE.validate_json(text)
