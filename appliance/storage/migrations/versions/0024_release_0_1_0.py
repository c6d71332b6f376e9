"""The schema of release 0.1.0.

Databases of versions before it go on from the last revision that these had, whose name this one
bears; older ones are refused.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = None
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create every table."""
    _create_audit()
    _create_jobs()
    _create_leases()
    _create_maintenance()
    _create_node_groups()
    _create_nodes()
    _create_pod_memory()
    _create_proxy_keys()
    _create_sessions()
    _create_system_events()
    _create_systems()
    _create_users()
    _create_workflows()
    _create_writers()
    _create_deliveries()
    _create_driver_specs()
    _create_events()
    _create_followed_jobs()
    _create_grants()
    _create_job_requests()
    _create_labels()
    _create_pods()
    _create_points()
    _create_reservations()
    _create_run_sessions()
    _create_session_updates()
    _create_tokens()


def _create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("username", sa.String(length=256), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("door", sa.String(length=16), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_index("ix_audit_name", "audit", ["name"])
    op.create_index("ix_audit_username", "audit", ["username"])


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("sequence", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("session", sa.String(length=63), nullable=False),
        sa.Column("workflow", sa.String(length=64), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("gid", sa.BigInteger(), nullable=False),
        sa.Column("username", sa.String(length=256), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("num_systems", sa.Integer(), nullable=False),
        sa.Column("workers_per_system", sa.Integer(), nullable=False),
        sa.Column("work_dir", sa.Text(), nullable=False),
        sa.Column("client_workdir", sa.Text(), nullable=False),
        sa.Column("service_authority", sa.Text(), nullable=False),
        sa.Column("service_address", sa.Text(), nullable=False),
        sa.Column("artifact_dir", sa.Text(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("requirements", sa.JSON(), nullable=False),
        sa.Column("holding", sa.JSON(), nullable=False),
        sa.Column("verdict", sa.JSON(none_as_null=True)),
        sa.Column("num_starts", sa.Integer(), nullable=False),
        sa.Column("held_by", sa.String(length=256), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("client_release", sa.String(length=32), nullable=False),
        sa.Column("array_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("started_at", _TIME),
        sa.Column("ended_at", _TIME),
        sa.PrimaryKeyConstraint("sequence"),
        sa.UniqueConstraint("id"),
    )
    _partial("ix_jobs_array_id", "jobs", ["array_id"], "array_id != ''")
    op.create_index("ix_jobs_phase", "jobs", ["phase"])
    op.create_index("ix_jobs_priority_newest", "jobs", ["priority", sa.text("sequence DESC")])
    _partial("ix_jobs_request_digest", "jobs", ["request_digest"], "request_digest != ''")
    op.create_index("ix_jobs_session", "jobs", ["session"])
    _partial(
        "ix_jobs_unfinished", "jobs", ["priority", sa.text("sequence DESC")], "ended_at IS NULL"
    )
    _partial(
        "ix_jobs_unfinished_of_session",
        "jobs",
        ["session", "priority", sa.text("sequence DESC")],
        "ended_at IS NULL",
    )
    op.create_index("ix_jobs_workflow", "jobs", ["workflow"])


def _create_leases() -> None:
    op.create_table(
        "leases",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("seconds", sa.Integer(), nullable=False),
        sa.Column("holder", sa.String(length=256), nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_leases_expires_at", "leases", ["expires_at"])


def _create_maintenance() -> None:
    op.create_table(
        "maintenance",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("system", sa.String(length=64), nullable=False),
        sa.Column("starts_at", _TIME, nullable=False),
        sa.Column("ends_at", _TIME, nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", "system"),
    )


def _create_node_groups() -> None:
    op.create_table(
        "node_groups",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("is_healthy", sa.Boolean(), nullable=False),
        sa.Column("num_nodes", sa.Integer(), nullable=False),
        sa.Column("num_cores", sa.Integer(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _create_nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("roles", sa.JSON(), nullable=False),
        sa.Column("num_cores", sa.Integer(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _create_pod_memory() -> None:
    op.create_table(
        "pod_memory",
        sa.Column("kind", sa.String(length=24), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind"),
    )


def _create_proxy_keys() -> None:
    op.create_table(
        "proxy_keys",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("changed_at", _TIME, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("num_systems", sa.Integer()),
        sa.Column("borrow_limit", sa.Integer()),
        sa.Column("max_node_groups", sa.Integer()),
        sa.Column("max_executes", sa.Integer()),
        sa.Column("max_compiles", sa.Integer()),
        sa.Column("shares", sa.Float(), nullable=False),
        sa.Column("is_paused", sa.Boolean(), nullable=False),
        sa.Column("members", sa.JSON(), nullable=False),
        sa.Column("properties", sa.JSON(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _create_system_events() -> None:
    op.create_table(
        "system_events",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("system", sa.String(length=64), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_system_events_at", "system_events", ["at"])
    op.create_index("ix_system_events_system", "system_events", ["system"])


def _create_systems() -> None:
    op.create_table(
        "systems",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("is_healthy", sa.Boolean(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("block", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _create_users() -> None:
    op.create_table(
        "users",
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("gid", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("sessions", sa.JSON(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("blocked_at", _TIME),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("uid"),
    )


def _create_workflows() -> None:
    op.create_table(
        "workflows",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("session", sa.String(length=63), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("gid", sa.BigInteger(), nullable=False),
        sa.Column("username", sa.String(length=256), nullable=False),
        sa.Column("reserves_resources", sa.Boolean(), nullable=False),
        sa.Column("is_released", sa.Boolean(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("first_sequence", sa.BigInteger()),
        sa.Column("run_name", sa.String(length=80), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_workflows_first_sequence", "workflows", ["first_sequence"])
    _partial("ix_workflows_run_name", "workflows", ["run_name"], "run_name != ''")


def _create_writers() -> None:
    op.create_table(
        "writers",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("target", sa.JSON(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("num_attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", _TIME, nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_deliveries_due_at", "deliveries", ["due_at"])
    op.create_index("ix_deliveries_job", "deliveries", ["job"])


def _create_driver_specs() -> None:
    op.create_table(
        "driver_specs",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job"),
    )


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("subject", sa.String(length=96), nullable=False),
        sa.Column("is_warning", sa.Boolean(), nullable=False),
        sa.Column("phase", sa.String(length=16)),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_events_job", "events", ["job"])


def _create_followed_jobs() -> None:
    op.create_table(
        "followed_jobs",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("targets", sa.JSON(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job"),
    )


def _create_grants() -> None:
    op.create_table(
        "grants",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("system", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "system"),
    )


def _create_job_requests() -> None:
    op.create_table(
        "job_requests",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job"),
    )


def _create_labels() -> None:
    op.create_table(
        "labels",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=63), nullable=False),
        sa.Column("value", sa.String(length=63), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "key"),
    )


def _create_pods() -> None:
    op.create_table(
        "pods",
        sa.Column("name", sa.String(length=96), nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=24), nullable=False),
        sa.Column("pod_index", sa.Integer(), nullable=False),
        sa.Column("node", sa.String(length=256), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("resident_bytes", sa.BigInteger(), nullable=False),
        sa.Column("readings", sa.JSON(), nullable=False),
        sa.Column("ended_at", _TIME),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_index("ix_pods_job", "pods", ["job"])


def _create_points() -> None:
    op.create_table(
        "points",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("session", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("at", _TIME, nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_points_job", "points", ["job"])


def _create_reservations() -> None:
    op.create_table(
        "reservations",
        sa.Column("workflow", sa.String(length=64), nullable=False),
        sa.Column("systems", sa.JSON(), nullable=False),
        sa.Column("node_groups", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["workflow"], ["workflows.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("workflow"),
    )


def _create_run_sessions() -> None:
    op.create_table(
        "run_sessions",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("is_training", sa.Boolean(), nullable=False),
        sa.Column("num_steps", sa.BigInteger(), nullable=False),
        sa.Column("completed_steps", sa.BigInteger(), nullable=False),
        sa.Column("step_seconds", sa.Double(), nullable=False),
        sa.Column("started_at", _TIME, nullable=False),
        sa.Column("ended_at", _TIME),
        sa.Column("readings", sa.JSON(), nullable=False),
        sa.Column("masked_weights", sa.JSON(none_as_null=True)),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "number"),
    )


def _create_session_updates() -> None:
    op.create_table(
        "session_updates",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("session", sa.String(length=63), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("by", sa.String(length=256), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["session"], ["sessions.name"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_session_updates_session", "session_updates", ["session"])


def _create_tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("username", sa.String(length=256), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("parent", sa.String(length=32), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("expires_at", _TIME),
        sa.Column("revoked_at", _TIME),
        sa.ForeignKeyConstraint(["username"], ["users.name"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_tokens_parent", "tokens", ["parent"])
    op.create_index("ix_tokens_username", "tokens", ["username"])


def _partial(name: str, table: str, columns: list[str | sa.TextClause], where: str) -> None:
    """Create an index of the rows for which something holds."""
    rows = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=rows, postgresql_where=rows)
