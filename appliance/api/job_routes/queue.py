"""The queue over REST: which jobs wait, why and until when; and whether a request would start."""

import datetime as dt
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from appliance.api.cursors import offset_cursor, offset_of
from appliance.api.entry import Entry, enter, entry_router
from appliance.api.job_routes.job_schemas import JobSummary, Waiting
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.cluster.records import MAX_PRIORITY
from appliance.management.jobs.queue_view import StartQuestion

router = entry_router("queue")


class WaitingJob(BaseModel):
    """A job in the queue."""

    job: JobSummary
    waiting: Waiting


class Queue(BaseModel):
    """Waiting jobs in the order in which they are served."""

    items: list[WaitingJob]
    next: str | None
    """Cursor of the next page; null on the last one."""
    total: int
    """How many jobs wait."""
    as_of: dt.datetime | None
    """When the scheduling cycle ran that this rests on."""
    stopped: str
    """Why nothing is started now, such as a disk that is nearly full; empty if jobs are."""


class StartRequest(BaseModel):
    """A request that nobody has made yet."""

    num_systems: Annotated[int, Field(ge=0, le=1_000_000)]
    """Whole systems; 0 asks for a compile job."""
    session: Annotated[str, Field(max_length=63)] = ""
    priority: Annotated[int, Field(ge=0, le=MAX_PRIORITY)] = 299
    limit_seconds: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """After so long the job would be ended."""


class StartAnswer(BaseModel):
    """What would become of a request now; nothing was queued."""

    starts_now: bool
    systems: list[str]
    """The systems that it would get at once."""
    waiting: Waiting | None
    """Its place, if it would wait."""
    refusal: str
    """Why it could never start; empty if it could."""


@router.get("/queue", responses=problems(400))
def get_queue(
    entry: Annotated[Entry, enter(rules.READ)],
    services: Services,
    *,
    session: Annotated[str, Query(max_length=63)] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str, Query(pattern=r"^[0-9]{0,9}$")] = "",
) -> Queue:
    """Return waiting jobs with position, reason, blocking jobs and expected start."""
    offset = offset_of(cursor)
    page = services.queue.page(offset=offset, limit=limit, session=session)
    by_id = services.lists.lines([entry.job for entry in page.entries])
    items = [
        WaitingJob(job=JobSummary.of(by_id[entry.job]), waiting=Waiting.of(entry))
        for entry in page.entries
        if entry.job in by_id
    ]
    end = offset + len(page.entries)
    following = offset_cursor(end) if end < page.total and page.entries else None
    return Queue(
        items=items, next=following, total=page.total, as_of=page.as_of, stopped=page.stopped
    )


@router.post("/queue/plan", responses=problems(400, 404, 503))
def plan_start(
    wanted: StartRequest, entry: Annotated[Entry, enter(rules.READ)], services: Services
) -> StartAnswer:
    """Say whether a job would start now, on what, or when and why not; runs and queues nothing."""
    question = StartQuestion(
        num_systems=wanted.num_systems,
        user=entry.caller.user,
        session=wanted.session,
        priority=wanted.priority,
        limit_seconds=wanted.limit_seconds,
    )
    answer = services.queue.would_start(question)
    return StartAnswer(
        starts_now=answer.starts_now,
        systems=list(answer.systems),
        waiting=Waiting.of(answer.entry) if answer.entry else None,
        refusal=answer.refusal,
    )
