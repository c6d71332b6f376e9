"""The CS-2 systems of the cluster, as rows."""

from collections.abc import Sequence

from sqlalchemy import delete, select

from appliance.core.systems import System
from appliance.storage.database import Database
from appliance.storage.tables import SystemRow


class SystemRepository:
    """All systems.

    Args:
        database: Where they are kept.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def replace(self, systems: Sequence[System]) -> None:
        """Keep exactly these systems, in this order."""
        with self._database.transaction() as session:
            session.execute(delete(SystemRow))
            for position, system in enumerate(systems):
                session.add(
                    SystemRow(
                        name=system.name,
                        position=position,
                        is_healthy=system.is_healthy,
                        notes=system.notes,
                    )
                )

    def list(self) -> Sequence[System]:
        """Return all systems, in the cluster's order."""
        with self._database.reading() as session:
            return [
                System(name=row.name, is_healthy=row.is_healthy, notes=row.notes)
                for row in session.scalars(select(SystemRow).order_by(SystemRow.position))
            ]
