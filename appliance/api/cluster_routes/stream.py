"""Changes as server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Header, Query, Request
from fastapi.responses import StreamingResponse

from appliance.api.entry import Entry, StreamAccess, enter, entry_router
from appliance.api.job_routes.job_schemas import JobSummary
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.ids import JobId
from appliance.management.changes.watch import ChangeFeed, Notice, Topic
from appliance.observability.metrics import STREAM_FOLLOWERS

router = entry_router("stream")

HEARTBEAT_SECONDS = 15.0
"""Between two comments on a quiet stream: short of what proxies cut, and often enough to notice
that a token was revoked."""
_GATHER_SECONDS = 0.25
"""Changes that come within this time of each other travel together, each object once."""
_RETRY_MILLISECONDS = 2000

EVENT_STREAM = "text/event-stream"

_DESCRIPTION: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events",
        "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """What a follower wants to hear of.

    Attributes:
        topics: These alone.
        jobs: Of jobs and their progress, these alone; empty for all.
    """

    topics: frozenset[Topic]
    jobs: frozenset[str]

    def covers(self, notice: Notice) -> bool:
        """Whether a change is of interest."""
        if notice.topic not in self.topics:
            return False
        is_of_job = notice.topic in (Topic.JOB, Topic.PROGRESS)
        return not (is_of_job and self.jobs) or notice.name in self.jobs


@router.get(
    "/stream",
    responses={**problems(503), **_DESCRIPTION},
    response_class=StreamingResponse,
)
async def follow_changes(
    request: Request,
    entry: Annotated[Entry, enter(rules.FOLLOW)],
    services: Services,
    *,
    topic: Annotated[list[Topic] | None, Query(max_length=16)] = None,
    job: Annotated[list[str] | None, Query(max_length=64)] = None,
    last_event_id: Annotated[str, Header(max_length=64)] = "",
) -> StreamingResponse:
    """Tell of changes as server-sent events, for as long as the caller listens.

    Events: `job` (a job's summary, or `{"id", "is_deleted"}`), `progress` (newest values of a job's
    series and its step), `queue` (how many wait), `session` and `system` (the name). `reset` says
    that changes were missed: look at everything again. A stream that is opened again with
    `Last-Event-ID` goes on where it was cut.
    """
    interest = Interest(topics=frozenset(topic or Topic), jobs=frozenset(job or ()))
    events = _events(request, services, interest, last_event_id)
    return StreamingResponse(events, media_type=EVENT_STREAM, headers={"x-accel-buffering": "no"})


async def _events(
    request: Request, services: Services, interest: Interest, last: str
) -> AsyncIterator[str]:
    feed = services.feed
    resumed = feed.position_of(last) if last else feed.position
    position = feed.position if resumed is None else resumed
    access = StreamAccess(request)
    with _counted(feed):
        yield f"retry: {_RETRY_MILLISECONDS}\n\n"
        yield _event("reset" if resumed is None else "hello", {}, mark=feed.mark(position))
        while not feed.is_closed:
            is_news = await feed.wait(position, HEARTBEAT_SECONDS)
            if not await access.is_allowed():
                return
            if not is_news:
                yield ": still here\n\n"
                continue
            await asyncio.sleep(_GATHER_SECONDS)
            news = feed.since(position)
            position = news.position
            mark = feed.mark(position)
            if news.has_missed:
                yield _event("reset", {}, mark=mark)
                continue
            wanted = [notice for notice in news.notices if interest.covers(notice)]
            if wanted:
                yield await asyncio.to_thread(_tell, services, wanted, mark)


def _tell(services: Services, notices: Sequence[Notice], mark: str) -> str:
    """Return changes as events; the last alone has an id, so an interrupted batch is repeated."""
    events: list[tuple[str, Mapping[str, object]]] = []
    named: dict[Topic, list[str]] = {}
    for notice in notices:
        named.setdefault(notice.topic, []).append(notice.name)
    events += _jobs(services, named.pop(Topic.JOB, ()))
    events += _progress(services, named.pop(Topic.PROGRESS, ()))
    if named.pop(Topic.QUEUE, ()):
        events.append(("queue", {"num_waiting": services.queue.page(limit=0).total}))
    events += [(topic.value, {"name": name}) for topic, names in named.items() for name in names]
    texts = [_event(name, data) for name, data in events[:-1]]
    name, data = events[-1]
    return "".join([*texts, _event(name, data, mark=mark)])


def _jobs(services: Services, names: Iterable[str]) -> list[tuple[str, Mapping[str, object]]]:
    ids = [JobId(name) for name in names]
    lines = services.lists.lines(ids)
    return [
        (
            "job",
            JobSummary.of(lines[job]).model_dump(mode="json")
            if job in lines
            else {"id": job, "is_deleted": True},
        )
        for job in ids
    ]


def _progress(services: Services, names: Iterable[str]) -> list[tuple[str, Mapping[str, object]]]:
    ids = [JobId(name) for name in names]
    latest = services.lists.latest(ids)
    return [
        (
            "progress",
            {
                "id": job,
                "step": max((point.step for point in latest.get(job, {}).values()), default=0),
                "series": {name: point.value for name, point in latest.get(job, {}).items()},
            },
        )
        for job in ids
    ]


def _event(name: str, data: Mapping[str, object], *, mark: str = "") -> str:
    head = f"id: {mark}\n" if mark else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"


@contextmanager
def _counted(feed: ChangeFeed) -> Iterator[None]:
    feed.num_followers += 1
    try:
        with STREAM_FOLLOWERS.track_inprogress():
            yield
    finally:
        feed.num_followers -= 1
