"""Use of the cluster over time, by whom, and what flows now, over REST."""

import datetime as dt
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.management.background.activity_service import AccountUse, Flow, Utilization

router = entry_router("activity")

_MAX_HOURS = 24 * 31


class Shares(BaseModel):
    """Who has had how much system time, the most first."""

    items: list[AccountUse]


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


@router.get("/queue/shares", responses=problems())
def get_shares(entry: Annotated[Entry, enter(rules.READ)], services: Services) -> Shares:
    """Return the past use that fair share goes by."""
    return Shares(items=list(services.activity.shares()))
