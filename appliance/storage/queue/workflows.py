"""Workflows and their reservations, as rows."""

from collections.abc import Sequence

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import UpdateBase

from appliance.core.clock import Clock
from appliance.core.cluster.records import JobRecord, Reservation, User, WorkflowRecord
from appliance.core.errors import NotFoundError
from appliance.core.ids import WorkflowId
from appliance.core.queries.run_line import run_name
from appliance.storage.engine.database import Database
from appliance.storage.engine.writes import Statement, Write
from appliance.storage.schema.tables import JobRow, ReservationRow, WorkflowRow, table_of

_WORKFLOWS = table_of(WorkflowRow)


def _begun(clause: "sqlite.Insert | postgresql.Insert") -> UpdateBase:
    """Return the statement for one dialect; the first job of a known workflow makes it a run."""
    run = {name: clause.excluded[name] for name in ("first_sequence", "run_name")}
    return clause.on_conflict_do_update(
        index_elements=["id"], set_=run, where=_WORKFLOWS.c.first_sequence.is_(None)
    )


_NEW = Statement(
    rank=5,
    clause=_begun(sqlite.insert(_WORKFLOWS)),
    on_postgresql=_begun(postgresql.insert(_WORKFLOWS)),
)


class WorkflowRepository:
    """All workflows.

    Args:
        clock: Gives the times of creation.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def ensure(
        self,
        workflow: WorkflowId,
        *,
        session: str,
        user: User,
        reserves_resources: bool = False,
        first: JobRecord | None = None,
    ) -> None:
        """Store a workflow unless it is known already; clients may bring their own id.

        Args:
            session: Where it is.
            user: Its owner.
            reserves_resources: Whether what its jobs get stays its own between jobs.
            first: A new job of it, which makes it a run if it is the first one.
        """
        row = {
            "id": workflow,
            "session": session,
            "uid": user.uid,
            "gid": user.gid,
            "username": user.name,
            "reserves_resources": reserves_resources,
            "is_released": False,
            "created_at": self._clock.now(),
            "first_sequence": first.sequence if first else None,
            "run_name": run_name(first.labels, array=first.array) if first else "",
        }
        self._database.write(Write(statement=_NEW, key=f"workflow {workflow}", rows=(row,)))

    def find(self, workflow: WorkflowId) -> WorkflowRecord | None:
        """Return a workflow, or None if there is none of that id."""
        with self._database.reading() as rows:
            row = rows.get(WorkflowRow, workflow)
            if row is None:
                return None
            return _record(row)

    def release(self, workflow: WorkflowId) -> None:
        """Give up what a workflow reserved.

        Raises:
            NotFoundError: There is no such workflow.
        """
        change = update(WorkflowRow).where(WorkflowRow.id == workflow).values(is_released=True)
        with self._database.transaction() as rows:
            if rows.execute(change).rowcount == 0:  # type: ignore[attr-defined]  # CursorResult
                raise NotFoundError(f"There is no workflow {workflow!r}.")
            rows.execute(delete(ReservationRow).where(ReservationRow.workflow == workflow))

    def reserve(self, workflow: WorkflowId) -> None:
        """Reserve the grants of the workflow's next jobs until the workflow is released.

        Raises:
            NotFoundError: There is no such workflow.
        """
        change = update(WorkflowRow).where(WorkflowRow.id == workflow)
        with self._database.transaction() as rows:
            changed = rows.execute(change.values(reserves_resources=True, is_released=False))
            if changed.rowcount == 0:  # type: ignore[attr-defined]  # CursorResult
                raise NotFoundError(f"There is no workflow {workflow!r}.")

    def reserving(self) -> Sequence[WorkflowId]:
        """Return the workflows with a reservation."""
        wanted = (WorkflowRow.reserves_resources, WorkflowRow.is_released.is_(False))
        with self._database.reading() as rows:
            return [
                WorkflowId(name) for name in rows.scalars(select(WorkflowRow.id).where(*wanted))
            ]

    def keep(self, reservation: Reservation) -> None:
        """Store what a workflow holds, in place of what it held before."""
        with self._database.transaction() as rows:
            rows.merge(
                ReservationRow(
                    workflow=reservation.workflow.id,
                    systems=list(reservation.systems),
                    node_groups=list(reservation.node_groups),
                )
            )

    def reservations(self) -> Sequence[Reservation]:
        """Return what all workflows hold."""
        query = select(ReservationRow, WorkflowRow).join(
            WorkflowRow, WorkflowRow.id == ReservationRow.workflow
        )
        with self._database.reading() as rows:
            return [
                Reservation(
                    workflow=_record(workflow),
                    systems=tuple(row.systems),
                    node_groups=tuple(row.node_groups),
                )
                for row, workflow in rows.execute(query.order_by(WorkflowRow.created_at))
            ]


def lead_runs_on(rows: Session, sequences: Sequence[int]) -> None:
    """Let the runs whose first jobs were deleted begin with the oldest of the others."""
    oldest = (
        select(func.min(JobRow.sequence)).where(JobRow.workflow == WorkflowRow.id).scalar_subquery()
    )
    begins = WorkflowRow.first_sequence.in_(sequences)
    change = update(WorkflowRow).where(begins).values(first_sequence=oldest)
    rows.execute(change.execution_options(synchronize_session=False))


def _record(row: WorkflowRow) -> WorkflowRecord:
    return WorkflowRecord(
        id=WorkflowId(row.id),
        session=row.session,
        user=User(uid=row.uid, gid=row.gid, name=row.username),
        reserves_resources=row.reserves_resources,
        is_released=row.is_released,
        created_at=row.created_at,
    )
