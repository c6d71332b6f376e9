"""Jobs over REST."""

import datetime as dt
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request, Response

from appliance.api.cursors import MAX_CURSOR, job_cursor, job_place
from appliance.api.entry import Entry, caller_of, enter, entry_router
from appliance.api.job_routes.job_schemas import (
    Event,
    EventList,
    Job,
    JobChange,
    JobPage,
    JobSummary,
    Pod,
    PodList,
    Progress,
    RunSession,
    RunSessionList,
    Series,
    Waiting,
)
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.cluster.access import Action
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import MAX_LABELS, JobRecord
from appliance.core.cluster.run import POD_SERIES
from appliance.core.errors import UserError
from appliance.core.ids import JobId
from appliance.core.queries.job_filter import JobFilter, JobOrder, JobSort
from appliance.core.queries.label_selector import parse_selector
from appliance.files.profiles import chrome_events, find_output_titles
from appliance.management.access.authorization import job_target
from appliance.management.jobs.job_edits import JobEdit, mark_of
from appliance.management.jobs.job_service import JobView, cancelled_by
from appliance.management.jobs.run_sessions import with_readings
from appliance.wire.requests.submissions import parse_priority

router = entry_router("jobs")

MAX_LIMIT = 1000
MAX_OFFSET = 10_000_000
Name = Annotated[str, Query(max_length=256)]
JobPath = Annotated[str, Path(alias="job_id", min_length=1, max_length=64)]
IfMatch = Annotated[str, Header(max_length=64)]


RunSessionNumber = Annotated[int | None, Query(ge=1, le=1 << 31)]
"""A session that an execute job has run, from 1."""


def _filter(
    *,
    session: Name = "",
    workflow: Name = "",
    user: Name = "",
    uid: Annotated[int | None, Query(ge=-1, le=1 << 40)] = None,
    mine: bool = False,
    type: JobType | None = None,
    phase: Annotated[list[Phase] | None, Query(max_length=9)] = None,
    all_states: bool = False,
    system: Name = "",
    client_release: Name = "",
    label: Annotated[list[str] | None, Query(max_length=MAX_LABELS)] = None,
    text: Name = "",
    created_after: dt.datetime | None = None,
    order: JobOrder = JobOrder.PRIORITY,
    sort: JobSort | None = None,
    descending: bool = False,
    cursor: Annotated[str, Query(max_length=MAX_CURSOR)] = "",
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
    request: Request,
) -> JobFilter:
    """Read a request for a list of jobs."""
    if sort is not None and cursor:
        raise UserError("A sorted list has no cursors.", hint="Ask for its pages by offset.")
    return JobFilter(
        session=session,
        workflow=workflow,
        user=user,
        uid=caller_of(request).user.uid if mine else uid,
        type=type,
        phases=tuple(phase or ()),
        with_finished=all_states,
        system=system,
        client_release=client_release,
        labels=parse_selector(label or ()),
        text=text,
        created_after=with_zone(created_after),
        order=order,
        sort=sort,
        descending=descending,
        after=job_place(cursor, order) if cursor else None,
        offset=offset,
        limit=limit,
    )


@router.get("/jobs", responses=problems(400))
def list_jobs(
    wanted: Annotated[JobFilter, Depends(_filter)],
    entry: Annotated[Entry, enter(rules.READ)],
    services: Services,
    *,
    with_total: bool = False,
) -> JobPage:
    """Return jobs, a page at a time; finished ones only when asked for.

    `next` leads on without gaps while jobs come and go. `offset` leaves out so many, for lists that
    are looked at in the middle, and for those in the order of a column (`sort`), which have no
    `next`. Each word of `text` occurs in the id, the user, the type, the phase or a label. Each
    `label` is a selector as kubectl has them: `key=value`, `key!=value`, `key in (a,b)`,
    `key notin (a,b)`, `key` or `!key`.
    """
    lines = services.lists.page(wanted)
    is_full = len(lines) == wanted.limit and wanted.sort is None
    return JobPage(
        items=[JobSummary.of(line) for line in lines],
        next=job_cursor(lines[-1], wanted.order) if is_full else None,
        total=services.lists.count(wanted) if with_total else None,
    )


@router.get("/jobs/{job_id}", responses=problems(404))
def get_job(
    job_id: JobPath,
    entry: Annotated[Entry, enter(rules.READ_JOB)],
    services: Services,
    response: Response,
) -> Job:
    """Return a job with its phases, pods, events and readings.

    The ETag is of what can be edited; give it back as If-Match with a change.
    """
    view = services.jobs.view(JobId(job_id))
    response.headers["etag"] = _etag(view.job)
    return _job(view, services)


@router.patch("/jobs/{job_id}", responses=problems(400, 403, 404, 409, 412))
def change_job(
    job_id: JobPath,
    wanted: JobChange,
    *,
    entry: Annotated[Entry, enter(rules.CHANGE_JOB)],
    services: Services,
    response: Response,
    if_match: IfMatch = "",
) -> Job:
    """Change priority or labels; a new priority is that of the whole workflow."""
    record = services.jobs.load(JobId(job_id))
    if wanted.labels is not None and wanted.priority is not None:  # each has a rule of its own
        entry.allow(job_target(record), Action.EDIT_JOB)
    edit = JobEdit(priority=wanted.priority, labels=wanted.labels, mark=_mark(if_match))
    action = Action.PRIORITISE_JOB if wanted.priority is not None else Action.EDIT_JOB
    detail = wanted.model_dump_json(exclude_unset=True)
    target = job_target(record, priority=_priority(wanted))
    with entry.change(target, action=action, detail=detail):
        changed = services.edits.edit(record.id, edit)
    response.headers["etag"] = _etag(changed)
    return _job(services.jobs.view(record.id), services)


@router.post("/jobs/{job_id}/cancel", status_code=202, responses=problems(403, 404, 409))
def cancel_job(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.END_JOB)], services: Services
) -> Job:
    """Cancel a job; it ends within seconds, and the stream tells when it has."""
    entry.describe("cancel")
    services.jobs.cancel(JobId(job_id), cancelled_by(entry.caller.user.name, "over REST"))
    return _job(services.jobs.view(JobId(job_id)), services)


@router.post("/jobs/{job_id}/hold", responses=problems(403, 404, 409))
def hold_job(
    job_id: JobPath,
    entry: Annotated[Entry, enter(rules.EDIT_JOB)],
    services: Services,
    *,
    stops: bool = False,
) -> Job:
    """Let a waiting job keep its place in the queue but not start, until it is released.

    With `stops` the driver of a run that goes on is stopped first, with its script's jobs.
    """
    entry.describe("hold")
    services.edits.hold(JobId(job_id), entry.caller.user, stops=stops)
    return _job(services.jobs.view(JobId(job_id)), services)


@router.post("/jobs/{job_id}/requeue", responses=problems(403, 404, 409))
def requeue_job(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.EDIT_JOB)], services: Services
) -> Job:
    """Stop the driver of a run, with its script's jobs, and queue it again."""
    entry.describe("requeue")
    services.edits.requeue(JobId(job_id), entry.caller.user)
    return _job(services.jobs.view(JobId(job_id)), services)


@router.post("/jobs/{job_id}/release", responses=problems(403, 404, 409))
def release_job(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.RELEASE_JOB)], services: Services
) -> Job:
    """Let a held job start again; what an administrator holds, administrators release."""
    entry.describe("release")
    services.edits.release(JobId(job_id))
    return _job(services.jobs.view(JobId(job_id)), services)


@router.delete("/jobs/{job_id}", status_code=204, responses=problems(403, 404, 409))
def delete_job(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.END_JOB)], services: Services
) -> Response:
    """Forget a job that has ended."""
    entry.describe("delete")
    services.jobs.delete(JobId(job_id))
    return Response(status_code=204)


@router.get("/jobs/{job_id}/events", responses=problems(404))
def list_events(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.READ_JOB)], services: Services
) -> EventList:
    """Return what happened to a job, oldest first."""
    services.jobs.load(JobId(job_id))
    events = services.jobs.events(JobId(job_id))
    return EventList(items=[Event.of(event) for event in events])


@router.get("/jobs/{job_id}/pods", responses=problems(404))
def list_pods(
    job_id: JobPath,
    entry: Annotated[Entry, enter(rules.READ_JOB)],
    services: Services,
    session: RunSessionNumber = None,
) -> PodList:
    """Return a job's pods with their readings: the last ones, or those of a session."""
    pods = services.jobs.view(JobId(job_id)).pods
    if session is not None:
        of_session = services.jobs.run_sessions.one(JobId(job_id), session).pods
        pods = [with_readings(pod, of_session[pod.name]) for pod in pods if pod.name in of_session]
    return PodList(items=[Pod.of(pod) for pod in pods])


@router.get("/jobs/{job_id}/sessions", responses=problems(404))
def list_run_sessions(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.READ_JOB)], services: Services
) -> RunSessionList:
    """Return the sessions that an execute job has run, each with its own readings."""
    services.jobs.load(JobId(job_id))
    found = services.jobs.run_sessions.of_job(JobId(job_id))
    return RunSessionList(items=[RunSession.of(each) for each in found])


@router.get("/jobs/{job_id}/waiting", responses=problems(404))
def explain_job(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.READ_JOB)], services: Services
) -> Waiting | None:
    """Say why a job waits, what blocks it and when it is expected to start; null if it runs."""
    services.jobs.load(JobId(job_id))
    place = services.queue.find(JobId(job_id))
    return Waiting.of(place) if place else None


@router.get("/jobs/{job_id}/series", responses=problems(404))
def get_series(
    job_id: JobPath,
    entry: Annotated[Entry, enter(rules.READ_JOB)],
    services: Services,
    *,
    name: Annotated[list[str] | None, Query(max_length=32)] = None,
    after: Annotated[str, Query(pattern=r"^[0-9]{0,18}$")] = "",
) -> Series:
    """Return loss, rate and other series of a job's training, as they stream."""
    job = services.jobs.load(JobId(job_id))
    number = int(after or 0)
    found = services.lists.series(JobId(job_id), names=name or (), after=number)
    titles = {**find_output_titles(FilePath(job.work_dir)), **POD_SERIES}
    return Series.of(found, titles=titles, after=number)


@router.get(
    "/jobs/{job_id}/profile",
    responses=problems(404),
    summary="Profile of one simulated step",
)
def get_profile(
    job_id: JobPath,
    entry: Annotated[Entry, enter(rules.READ_JOB)],
    services: Services,
    session: RunSessionNumber = None,
) -> dict[str, Any]:
    """Return the profile of one step of a session as a Chrome trace; all its times are simulated.

    Load it in Perfetto or chrome://tracing. Without a session it is the last one that has a
    profile.
    """
    profile = services.jobs.run_sessions.profile(JobId(job_id), session)
    return {
        "traceEvents": chrome_events(profile),
        "displayTimeUnit": "ms",
        "otherData": {"job": job_id, "time": "simulated"},
    }


@router.get("/jobs/{job_id}/configuration", responses=problems(403, 404))
def get_configuration(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.READ_CONFIGURATION)], services: Services
) -> dict[str, Any]:
    """Return the request by which the job was submitted."""
    return services.jobs.requests.as_json(JobId(job_id))


def _job(view: JobView, services: Services) -> Job:
    sessions = services.jobs.run_sessions
    progress = sessions.progress(view.job.id)
    return Job.of_view(
        view,
        progress=Progress.of(progress, now_seconds=sessions.now_seconds()) if progress else None,
        num_run_sessions=sessions.count(view.job.id),
        waiting=services.queue.find(view.job.id),
        dashboard=services.jobs.dashboard(view.job.id),
        namespace=services.jobs.namespace_of(view.job),
    )


def _priority(wanted: JobChange) -> int | None:
    return None if wanted.priority is None else parse_priority(wanted.priority)


def _etag(job: JobRecord) -> str:
    return f'"{mark_of(job)}"'


def _mark(if_match: str) -> str:
    """Return the ETag of an If-Match header; empty matches any state."""
    tag = if_match.strip()
    if tag in ("", "*"):
        return ""
    if len(tag) < 2 or tag[0] != '"' or tag[-1] != '"':
        raise UserError(f"If-Match {if_match!r} is no ETag.", hint="Give the ETag as it came.")
    return tag[1:-1] or "-"


def with_zone(moment: dt.datetime | None) -> dt.datetime | None:
    """Interpret a time without a zone as UTC."""
    if moment is None or moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=dt.UTC)
