"""Liveness and readiness of the appliance, for probes, which have no token."""

from typing import Annotated

from pydantic import BaseModel

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.management.store.database_check import check_database

router = entry_router("health")


class Health(BaseModel):
    """The appliance answers."""

    status: str


@router.get("/healthz")
def health(entry: Annotated[Entry, enter(rules.PUBLIC)]) -> Health:
    """Say that the appliance answers."""
    return Health(status="ok")


@router.get("/livez")
async def liveness(entry: Annotated[Entry, enter(rules.PUBLIC)]) -> Health:
    """Say that the process lives: its event loop turns. One that does not is to be restarted."""
    return Health(status="ok")


@router.get("/readyz", responses=problems(503))
async def readiness(entry: Annotated[Entry, enter(rules.PUBLIC)], services: Services) -> Health:
    """Say that requests can be answered: REST serves, and the database answers within 3 s."""
    await check_database(services.state.database)
    return Health(status="ok")
