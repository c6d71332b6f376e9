"""Whether the appliance lives, and whether it can answer: for probes, which have no token."""

import asyncio
from typing import Annotated

from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.errors import ClusterError
from appliance.storage.engine.database import Database

router = entry_router("health")

_PATIENCE_SECONDS = 3.0
"""Less than what probes wait (Kubernetes and Compose: 4 s and more)."""


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
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await asyncio.to_thread(_ask, services.state.database)
    except (TimeoutError, SQLAlchemyError) as error:
        raise ClusterError(
            "The appliance is not ready: its database does not answer.",
            hint="It becomes ready by itself once the database answers; `appliance status` and "
            "management's log say more.",
        ) from error
    return Health(status="ok")


def _ask(database: Database) -> None:
    """Read from the database."""
    with database.reading() as session:
        session.execute(text("SELECT 1"))
