"""Detached runs over REST: the appliance runs a script as the calling user."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.cluster.access import Target
from appliance.core.cluster.drivers import MAX_RESTARTS, DriverSpec, FailureCategory, RestartPolicy
from appliance.core.cluster.records import DEFAULT_PRIORITY, MAX_PRIORITY
from appliance.management.jobs.driver_service import DriverSubmission

router = entry_router("jobs")

_Name = Annotated[str, Field(min_length=1, max_length=140)]
_Index = Annotated[int, Field(ge=0, lt=10**9)]
_Word = Annotated[str, Field(max_length=1 << 16)]


class RestartWish(BaseModel):
    """When a script is started again."""

    model_config = ConfigDict(extra="forbid")

    on: Annotated[list[FailureCategory], Field(max_length=3)] = []
    """Categories of failure: `pod`, `node`."""
    limit: Annotated[int, Field(ge=0, le=MAX_RESTARTS)] = 0


class NewDetachedRun(BaseModel):
    """A script to be run on the appliance's side."""

    model_config = ConfigDict(extra="forbid")

    argv: Annotated[list[_Word], Field(min_length=1, max_length=4096)]
    """Program and arguments; the program is a path or found on PATH of `environment`."""
    work_dir: Annotated[str, Field(max_length=4096)]
    """Where it runs; an absolute path."""
    environment: Annotated[dict[str, _Word], Field(max_length=4096)] = {}
    session: Annotated[str, Field(max_length=63)] = ""
    priority: Annotated[int, Field(ge=0, le=MAX_PRIORITY)] = DEFAULT_PRIORITY
    labels: Annotated[dict[str, str], Field(max_length=64)] = {}
    num_systems: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Systems that the script will ask for; refused if there are fewer. 0 if unknown."""
    restart: RestartWish = RestartWish()
    time_limit_seconds: Annotated[float, Field(ge=0, le=1e9)] = 0
    """Each job of the script is ended after so long, counted from its start; 0 sets no limit."""
    git_commit: Annotated[str, Field(max_length=64)] = ""
    """The git commit of `work_dir`, in hexadecimal; empty if it is in no repository."""
    is_dirty: bool | None = None
    """Whether files that git tracks differ from it; null if that is not known."""
    after: Annotated[list[_Name], Field(max_length=256)] = []
    """Jobs, and arrays of one's own, that must have succeeded before it starts; behind `any:` those
    that must have ended, behind `notok:` those that must have failed."""
    array: Annotated[list[_Index], Field(max_length=64)] = []
    """One run for each index, all or none; none for a single run."""
    array_limit: Annotated[int, Field(ge=0, lt=10**9)] = 0
    """Of the array at most so many run at once; 0 sets no limit."""


class DetachedRun(BaseModel):
    """A detached run that was submitted."""

    job: str
    """The driver: its log is that of the script."""
    workflow: str
    """The driver and all jobs of the script belong to it."""
    array: str = ""
    """Id of the array; empty for a single run. `job` and `workflow` are those of its first one."""
    jobs: list[str] = []
    """All drivers of the array, by index."""


@router.post("/jobs/detached", status_code=201, responses=problems(400, 403, 404, 409))
def submit_detached(
    wanted: NewDetachedRun,
    entry: Annotated[Entry, enter(rules.SUBMIT_DETACHED)],
    services: Services,
) -> DetachedRun:
    """Run a script on the appliance's side as the caller, so that it outlives every terminal."""
    spec = DriverSpec(
        argv=tuple(wanted.argv),
        work_dir=wanted.work_dir,
        environment=wanted.environment,
        num_systems=wanted.num_systems,
        time_limit_seconds=wanted.time_limit_seconds,
        restart=RestartPolicy(on=tuple(wanted.restart.on), limit=wanted.restart.limit),
        commit=wanted.git_commit,
        is_dirty=wanted.is_dirty,
    )
    target = Target(kind="job", priority=wanted.priority)
    with entry.change(target, detail="detached"):
        submission = DriverSubmission(
            spec=spec,
            session=wanted.session,
            user=entry.caller.user,
            priority=wanted.priority,
            labels=wanted.labels,
            after=tuple(wanted.after),
            array_limit=wanted.array_limit,
        )
        if wanted.array:
            array, jobs = services.drivers.submit_array_and_wait(submission, wanted.array)
            names: list[str] = [job.id for job in jobs]
            return DetachedRun(job=names[0], workflow=jobs[0].workflow, array=array, jobs=names)
        job = services.drivers.submit_and_wait(submission)
    return DetachedRun(job=job.id, workflow=job.workflow)
