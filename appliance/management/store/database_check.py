"""Whether the database answers, for the probe of readiness."""

import asyncio

from sqlalchemy import text

from appliance.core.errors import ClusterError
from appliance.management.store.database_errors import DatabaseError
from appliance.storage.engine.database import Database

_PATIENCE_SECONDS = 3.0
"""Less than what probes wait (Kubernetes and Compose: 4 s and more)."""


async def check_database(database: Database) -> None:
    """Read from the database in a thread.

    Raises:
        ClusterError: It refuses, or does not answer in time.
    """
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await asyncio.to_thread(_read, database)
    except (TimeoutError, DatabaseError) as error:
        raise ClusterError(
            "The appliance is not ready: its database does not answer.",
            hint="It becomes ready by itself once the database answers; `appliance status` and "
            "management's log say more.",
        ) from error


def _read(database: Database) -> None:
    with database.reading() as session:
        session.execute(text("SELECT 1"))
