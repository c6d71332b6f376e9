"""The placement of a job's layer steps on the wafer, over REST."""

from typing import Annotated

from pydantic import TypeAdapter

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.job_routes.jobs import JobPath, RunSessionNumber
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.ids import JobId
from appliance.wafer.timing.grid import WaferPicture

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
    return _PICTURE.validate_json(services.jobs.run_sessions.wafer_picture(JobId(job_id), session))
