"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create every table."""
    _create_jobs()
    _create_children()
    _create_others()


def downgrade() -> None:
    """Drop every table."""
    for table in ("pods", "labels", "grants", "events", "workflows"):
        op.drop_table(table)
    for table in ("systems", "sessions", "leases", "jobs"):
        op.drop_table(table)


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
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("started_at", _TIME),
        sa.Column("ended_at", _TIME),
        sa.PrimaryKeyConstraint("sequence"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("ix_jobs_phase", "jobs", ["phase"])
    op.create_index("ix_jobs_session", "jobs", ["session"])
    op.create_index("ix_jobs_workflow", "jobs", ["workflow"])


def _create_children() -> None:
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
    op.create_table(
        "grants",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("system", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "system"),
    )
    op.create_table(
        "labels",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=63), nullable=False),
        sa.Column("value", sa.String(length=63), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "key"),
    )
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
        sa.Column("ended_at", _TIME),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_index("ix_pods_job", "pods", ["job"])


def _create_others() -> None:
    op.create_table(
        "leases",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("seconds", sa.Integer(), nullable=False),
        sa.Column("holder", sa.String(length=256), nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_leases_expires_at", "leases", ["expires_at"])
    op.create_table(
        "sessions",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "systems",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("is_healthy", sa.Boolean(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
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
        sa.PrimaryKeyConstraint("id"),
    )
