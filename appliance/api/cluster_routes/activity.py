"""Use of the cluster over time, by whom, and what flows now, over REST."""

import datetime as dt
from typing import Annotated

from fastapi import Query
from fastapi.responses import PlainTextResponse
from pydantic import AwareDatetime, BaseModel

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.queries.usage import UsageLine, as_csv
from appliance.management.background.activity_service import AccountUse, Flow, Utilization

router = entry_router("activity")

_MAX_HOURS = 24 * 31


class Shares(BaseModel):
    """Who has had how much system time, the most first."""

    items: list[AccountUse]


_Grouping = Annotated[str, Query(max_length=80, pattern="^(user|session|month|label=.+)$")]


class Report(BaseModel):
    """Who has had how much system time."""

    by: list[str]
    """What it is grouped by: each item's `keys` are in this order."""
    since: dt.datetime
    until: dt.datetime
    items: list[UsageLine]
    """By month, else the most first."""


@router.get("/cluster/utilization", responses=problems())
def get_utilization(
    entry: Annotated[Entry, enter(rules.READ)],
    services: Services,
    hours: Annotated[float, Query(gt=0, le=_MAX_HOURS)] = 6.0,
) -> Utilization:
    """Return the share of systems in use over the last hours."""
    return services.activity.utilization(dt.timedelta(hours=hours))


@router.get("/cluster/flow", responses=problems())
def get_flow(entry: Annotated[Entry, enter(rules.READ)], services: Services) -> Flow:
    """Return what all running jobs would move on real systems."""
    return services.activity.flow()


@router.get("/report", responses=problems(400))
def get_report(
    entry: Annotated[Entry, enter(rules.REPORT)],
    services: Services,
    by: Annotated[list[_Grouping], Query(min_length=1, max_length=4)],
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
) -> Report:
    """Return who has had how much system time, grouped by one thing or several.

    The span ends now and has thirty days unless it is given. `GET /report.csv` answers with text.
    """
    span = services.activity.last_days(since, until)
    lines = services.activity.report(by, span)
    return Report(by=by, since=span.since, until=span.until, items=list(lines))


@router.get(
    "/report.csv",
    responses={200: {"content": {"text/csv": {}}}, **problems(400)},
    response_class=PlainTextResponse,
)
def get_report_csv(
    entry: Annotated[Entry, enter(rules.REPORT)],
    services: Services,
    by: Annotated[list[_Grouping], Query(min_length=1, max_length=4)],
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
) -> PlainTextResponse:
    """Return the same as comma-separated values, with system time in hours."""
    span = services.activity.last_days(since, until)
    lines = services.activity.report(by, span)
    return PlainTextResponse(as_csv(lines, by), media_type="text/csv")


@router.get("/queue/shares", responses=problems())
def get_shares(entry: Annotated[Entry, enter(rules.READ)], services: Services) -> Shares:
    """Return the past use that fair share goes by."""
    return Shares(items=list(services.activity.shares()))
