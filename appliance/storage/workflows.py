"""Workflows and sessions, as rows."""

from collections.abc import Sequence

from sqlalchemy import select, update

from appliance.core.clock import Clock
from appliance.core.errors import NotFoundError
from appliance.core.ids import WorkflowId
from appliance.core.records import DEFAULT_SESSION, User, WorkflowRecord
from appliance.storage.database import Database
from appliance.storage.tables import SessionRow, WorkflowRow


class WorkflowRepository:
    """All workflows, and the sessions they live in.

    Args:
        database: Where they are kept.
        clock: Gives the times of creation.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def ensure(
        self, workflow: WorkflowId, *, session: str, user: User, reserves_resources: bool = False
    ) -> None:
        """Keep a workflow unless it is known already; clients may bring their own id."""
        with self._database.transaction() as rows:
            if rows.get(WorkflowRow, workflow) is None:
                rows.add(
                    WorkflowRow(
                        id=workflow,
                        session=session,
                        uid=user.uid,
                        gid=user.gid,
                        username=user.name,
                        reserves_resources=reserves_resources,
                        is_released=False,
                        created_at=self._clock.now(),
                    )
                )

    def find(self, workflow: WorkflowId) -> WorkflowRecord | None:
        """Return a workflow, or None if there is none of that id."""
        with self._database.reading() as rows:
            row = rows.get(WorkflowRow, workflow)
            if row is None:
                return None
            return WorkflowRecord(
                id=WorkflowId(row.id),
                session=row.session,
                user=User(uid=row.uid, gid=row.gid, name=row.username),
                reserves_resources=row.reserves_resources,
                is_released=row.is_released,
                created_at=row.created_at,
            )

    def release(self, workflow: WorkflowId) -> None:
        """Give up what a workflow reserved.

        Raises:
            NotFoundError: There is no such workflow.
        """
        change = update(WorkflowRow).where(WorkflowRow.id == workflow).values(is_released=True)
        with self._database.transaction() as rows:
            if rows.execute(change).rowcount == 0:  # type: ignore[attr-defined]  # CursorResult
                raise NotFoundError(f"There is no workflow {workflow!r}.")

    def ensure_session(self, name: str = DEFAULT_SESSION) -> None:
        """Keep a session unless it is known already."""
        with self._database.transaction() as rows:
            if rows.get(SessionRow, name) is None:
                rows.add(SessionRow(name=name, created_at=self._clock.now()))

    def sessions(self) -> Sequence[str]:
        """Return the names of all sessions."""
        with self._database.reading() as rows:
            return list(rows.scalars(select(SessionRow.name).order_by(SessionRow.name)))
