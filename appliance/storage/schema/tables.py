"""The tables, as SQLAlchemy sees them; `migrations` holds what was shipped."""

import datetime as dt
from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Double,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator


class UtcDateTime(TypeDecorator[dt.datetime]):
    """A point in time that comes back with its time zone, also from SQLite, which keeps none."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def bind_processor(
        self, dialect: Dialect
    ) -> Callable[[dt.datetime | None], dt.datetime | str | None] | None:
        """Return what makes the driver's value; for SQLite, its text."""
        # What SQLAlchemy makes of a time for SQLite is two calls and a dict for each value.
        return _sqlite_text if dialect.name == "sqlite" else super().bind_processor(dialect)

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """Store UTC; refuse a time without zone."""
        return None if value is None else _in_utc(value)

    def process_result_value(
        self, value: dt.datetime | None, dialect: Dialect
    ) -> dt.datetime | None:
        """Give UTC back."""
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=dt.UTC)


def _in_utc(value: dt.datetime) -> dt.datetime:
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return value if value.tzinfo is dt.UTC else value.astimezone(dt.UTC)


def _sqlite_text(value: dt.datetime | None) -> str | None:
    """Return a time as SQLAlchemy reads it back from SQLite, without its zone."""
    if value is None:
        return None
    utc = value if value.tzinfo is dt.UTC else _in_utc(value)
    return utc.isoformat(" ", "microseconds").removesuffix("+00:00")


class Base(DeclarativeBase):
    """Base of every table."""

    type_annotation_map = {dt.datetime: UtcDateTime()}  # noqa: RUF012 - SQLAlchemy's interface


def table_of(row: type[Base]) -> Table:
    """Return the table of a class, for statements about many rows."""
    table = row.__table__
    assert isinstance(table, Table)
    return table


class JobRow(Base):
    """One submission. `sequence` is the order of submission."""

    __tablename__ = "jobs"
    sequence: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    type: Mapped[str] = mapped_column(String(16))
    session: Mapped[str] = mapped_column(String(63), index=True)
    workflow: Mapped[str] = mapped_column(String(64), index=True)
    uid: Mapped[int] = mapped_column(BigInteger)
    gid: Mapped[int] = mapped_column(BigInteger)
    username: Mapped[str] = mapped_column(String(256))
    priority: Mapped[int]
    num_systems: Mapped[int]
    workers_per_system: Mapped[int]
    work_dir: Mapped[str] = mapped_column(Text)
    client_workdir: Mapped[str] = mapped_column(Text)
    service_authority: Mapped[str] = mapped_column(Text)
    service_address: Mapped[str] = mapped_column(Text, default="")
    artifact_dir: Mapped[str] = mapped_column(Text, default="")
    phase: Mapped[str] = mapped_column(String(16), index=True)
    message: Mapped[str] = mapped_column(Text, default="")
    detail: Mapped[str] = mapped_column(Text, default="")
    # `Any`: JSON objects, read and written by their owners in `core`.
    requirements: Mapped[dict[str, Any]] = mapped_column(JSON)
    holding: Mapped[dict[str, Any]] = mapped_column(JSON)
    verdict: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    num_starts: Mapped[int]
    held_by: Mapped[str] = mapped_column(String(256), default="")
    request_digest: Mapped[str] = mapped_column(String(64), default="")
    client_release: Mapped[str] = mapped_column(String(32), default="")
    array_id: Mapped[str] = mapped_column(String(64), default="")
    created_at: Mapped[dt.datetime]
    started_at: Mapped[dt.datetime | None]
    ended_at: Mapped[dt.datetime | None]

    labels: Mapped[list["LabelRow"]] = relationship(cascade="all, delete-orphan", lazy="selectin")
    grants: Mapped[list["GrantRow"]] = relationship(
        cascade="all, delete-orphan", lazy="selectin", order_by="GrantRow.position"
    )


Index("ix_jobs_priority_newest", JobRow.priority, JobRow.sequence.desc())
Index(
    "ix_jobs_unfinished",
    JobRow.priority,
    JobRow.sequence.desc(),
    sqlite_where=JobRow.ended_at.is_(None),
    postgresql_where=JobRow.ended_at.is_(None),
)
Index(
    "ix_jobs_unfinished_of_session",
    JobRow.session,
    JobRow.priority,
    JobRow.sequence.desc(),
    sqlite_where=JobRow.ended_at.is_(None),
    postgresql_where=JobRow.ended_at.is_(None),
)
Index(
    "ix_jobs_request_digest",
    JobRow.request_digest,
    sqlite_where=JobRow.request_digest != "",
    postgresql_where=JobRow.request_digest != "",
)


Index(
    "ix_jobs_array_id",
    JobRow.array_id,
    sqlite_where=JobRow.array_id != "",
    postgresql_where=JobRow.array_id != "",
)


class LabelRow(Base):
    """One `key=value` of a job."""

    __tablename__ = "labels"

    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    key: Mapped[str] = mapped_column(String(63), primary_key=True)
    value: Mapped[str] = mapped_column(String(63))


class GrantRow(Base):
    """A system that a job holds or held."""

    __tablename__ = "grants"

    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    system: Mapped[str] = mapped_column(String(64), primary_key=True)
    position: Mapped[int]


class PodRow(Base):
    """One process of a job."""

    __tablename__ = "pods"

    name: Mapped[str] = mapped_column(String(96), primary_key=True)
    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    role: Mapped[str] = mapped_column(String(24))
    index: Mapped[int] = mapped_column("pod_index")
    node: Mapped[str] = mapped_column(String(256))
    pid: Mapped[int]
    phase: Mapped[str] = mapped_column(String(16))
    exit_code: Mapped[int | None]
    message: Mapped[str] = mapped_column(Text)
    step: Mapped[int] = mapped_column(BigInteger)
    resident_bytes: Mapped[int] = mapped_column(BigInteger)
    readings: Mapped[dict[str, float]] = mapped_column(JSON)
    ended_at: Mapped[dt.datetime | None]


class RunSessionRow(Base):
    """A session of an execute job; see `RunSession`."""

    __tablename__ = "run_sessions"

    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    is_training: Mapped[bool]
    num_steps: Mapped[int] = mapped_column(BigInteger)
    completed_steps: Mapped[int] = mapped_column(BigInteger)
    step_seconds: Mapped[float] = mapped_column(Double)
    started_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]
    # `Any`: of each pod what `PodReadings` has, and what `MaskedWeights` has.
    readings: Mapped[dict[str, Any]] = mapped_column(JSON)
    masked_weights: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class EventRow(Base):
    """Something that happened to a job; written with the change it tells of."""

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    at: Mapped[dt.datetime]
    reason: Mapped[str] = mapped_column(String(64))
    message: Mapped[str] = mapped_column(Text)
    subject: Mapped[str] = mapped_column(String(96))
    is_warning: Mapped[bool]
    phase: Mapped[str | None] = mapped_column(String(16))


class DriverSpecRow(Base):
    """What a driver runs, as JSON; its environment may hold secrets."""

    __tablename__ = "driver_specs"

    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    spec: Mapped[str] = mapped_column(Text)


class JobRequestRow(Base):
    """The request that submitted a job, as the client sent it; it may name secrets of whom to tell.

    The job's place in a trace is kept beside it, and that of its parent; empty if it has none.
    """

    __tablename__ = "job_requests"

    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    request: Mapped[bytes] = mapped_column(LargeBinary)
    trace: Mapped[str] = mapped_column(Text)


class WorkflowRow(Base):
    """A workflow, and the run that it is once it has a job; see `RunLine`.

    `first_sequence` is that of the oldest of its jobs that are kept, None without one.
    """

    __tablename__ = "workflows"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    session: Mapped[str] = mapped_column(String(63))
    uid: Mapped[int] = mapped_column(BigInteger)
    gid: Mapped[int] = mapped_column(BigInteger)
    username: Mapped[str] = mapped_column(String(256))
    reserves_resources: Mapped[bool]
    is_released: Mapped[bool]
    created_at: Mapped[dt.datetime]
    first_sequence: Mapped[int | None] = mapped_column(BigInteger, index=True)
    run_name: Mapped[str] = mapped_column(String(80), default="")


Index(
    "ix_workflows_run_name",
    WorkflowRow.run_name,
    sqlite_where=WorkflowRow.run_name != "",
    postgresql_where=WorkflowRow.run_name != "",
)


class LeaseRow(Base):
    """Until when the holder of a job or workflow is believed to live."""

    __tablename__ = "leases"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    seconds: Mapped[int]
    holder: Mapped[str] = mapped_column(String(256))
    expires_at: Mapped[dt.datetime] = mapped_column(index=True)


class WriterRow(Base):
    """The management that may write; there is one row."""

    __tablename__ = "writers"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    token: Mapped[str] = mapped_column(String(64))


class SystemRow(Base):
    """One CS-2."""

    __tablename__ = "systems"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    position: Mapped[int]
    is_healthy: Mapped[bool]
    notes: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    block: Mapped[str] = mapped_column(String(64))
    version: Mapped[int]


class SystemEventRow(Base):
    """Something that happened to a system; it stays when the system is gone."""

    __tablename__ = "system_events"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    system: Mapped[str] = mapped_column(String(64), index=True)
    at: Mapped[dt.datetime] = mapped_column(index=True)
    kind: Mapped[str] = mapped_column(String(16))
    note: Mapped[str] = mapped_column(Text)
    details: Mapped[dict[str, str]] = mapped_column(JSON)


class NodeRow(Base):
    """One CPU server."""

    __tablename__ = "nodes"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    position: Mapped[int]
    roles: Mapped[list[str]] = mapped_column(JSON)
    num_cores: Mapped[int]
    memory_bytes: Mapped[int] = mapped_column(BigInteger)


class NodeGroupRow(Base):
    """MemoryX nodes that serve one job at a time."""

    __tablename__ = "node_groups"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    position: Mapped[int]
    kind: Mapped[str] = mapped_column(String(16))
    is_healthy: Mapped[bool]
    num_nodes: Mapped[int]
    num_cores: Mapped[int]
    memory_bytes: Mapped[int] = mapped_column(BigInteger)


class PodMemoryRow(Base):
    """What a kind of pod counts for on its node."""

    __tablename__ = "pod_memory"

    kind: Mapped[str] = mapped_column(String(24), primary_key=True)
    memory_bytes: Mapped[int] = mapped_column(BigInteger)


class MaintenanceRow(Base):
    """A time in which nothing may run on a system."""

    __tablename__ = "maintenance"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    system: Mapped[str] = mapped_column(String(64), primary_key=True)
    starts_at: Mapped[dt.datetime]
    ends_at: Mapped[dt.datetime]
    notes: Mapped[str] = mapped_column(Text)


class SessionRow(Base):
    """A user namespace and what it may use; see `SessionSpec`."""

    __tablename__ = "sessions"

    name: Mapped[str] = mapped_column(String(63), primary_key=True)
    created_at: Mapped[dt.datetime]
    changed_at: Mapped[dt.datetime]
    version: Mapped[int]
    num_systems: Mapped[int | None]
    borrow_limit: Mapped[int | None]
    max_node_groups: Mapped[int | None]
    max_executes: Mapped[int | None]
    max_compiles: Mapped[int | None]
    shares: Mapped[float] = mapped_column(Float)
    is_paused: Mapped[bool]
    members: Mapped[list[str]] = mapped_column(JSON)
    properties: Mapped[dict[str, str]] = mapped_column(JSON)
    labels: Mapped[dict[str, str]] = mapped_column(JSON)


class SessionUpdateRow(Base):
    """A change of a session."""

    __tablename__ = "session_updates"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    session: Mapped[str] = mapped_column(
        ForeignKey("sessions.name", ondelete="CASCADE"), index=True
    )
    at: Mapped[dt.datetime]
    by: Mapped[str] = mapped_column(String(256))
    message: Mapped[str] = mapped_column(Text)


class ReservationRow(Base):
    """What a workflow keeps between its jobs."""

    __tablename__ = "reservations"

    workflow: Mapped[str] = mapped_column(
        ForeignKey("workflows.id", ondelete="CASCADE"), primary_key=True
    )
    systems: Mapped[list[str]] = mapped_column(JSON)
    node_groups: Mapped[list[str]] = mapped_column(JSON)
