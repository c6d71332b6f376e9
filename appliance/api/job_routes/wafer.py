"""Where a job's layer steps lie on the wafer, over REST."""

from pathlib import Path
from typing import Annotated

from pydantic import TypeAdapter

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.job_routes.jobs import JobPath
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.errors import NotFoundError
from appliance.core.ids import JobId
from appliance.wafer.timing.grid import WaferPicture
from appliance.wire.profiles import find_wafer_picture

router = entry_router("jobs")

_PICTURE = TypeAdapter(WaferPicture)


@router.get("/jobs/{job_id}/wafer", responses=problems(404))
def get_wafer(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.READ_JOB)], services: Services
) -> WaferPicture:
    """Return where a job's layer steps lie on the wafer and how busy they keep it; simulated."""
    job = services.jobs.load(JobId(job_id))
    text = find_wafer_picture(Path(job.work_dir))
    if text is None:
        raise NotFoundError(
            f"Job {job_id} has no picture of the wafer.",
            hint="Execute jobs have one once a program is loaded.",
        )
    return _PICTURE.validate_json(text)
