"""What the cluster has, what sessions may use, what jobs and workflows hold."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)
_EMPTY_OBJECT = sa.text("'{}'")
_EMPTY_LIST = sa.text("'[]'")


def upgrade() -> None:
    """Create the tables of the resource model; sessions of before have no quota."""
    _extend_jobs()
    _extend_systems()
    _extend_sessions()
    _create_nodes()
    _create_promises()


def downgrade() -> None:
    """Drop them again."""
    for table in ("session_updates", "reservations", "maintenance", "pod_memory"):
        op.drop_table(table)
    for table in ("node_groups", "nodes"):
        op.drop_table(table)
    columns = {
        "jobs": ("requirements", "holding"),
        "systems": ("state", "block", "version"),
        "sessions": (
            *("changed_at", "version", "num_systems", "borrow_limit", "max_node_groups"),
            *("max_executes", "max_compiles", "shares", "is_paused", "members"),
            *("properties", "labels"),
        ),
    }
    for table, names in columns.items():
        for name in names:
            op.drop_column(table, name)


def _extend_jobs() -> None:
    for name in ("requirements", "holding"):
        op.add_column(
            "jobs", sa.Column(name, sa.JSON(), nullable=False, server_default=_EMPTY_OBJECT)
        )


def _extend_systems() -> None:
    for column in (
        sa.Column("state", sa.String(length=16), nullable=False, server_default="up"),
        sa.Column("block", sa.String(length=64), nullable=False, server_default=""),
        sa.Column("version", sa.Integer(), nullable=False, server_default="1"),
    ):
        op.add_column("systems", column)


def _extend_sessions() -> None:
    columns: tuple[sa.Column[Any], ...] = (
        sa.Column("changed_at", _TIME, nullable=False, server_default="1970-01-01 00:00:00"),
        sa.Column("version", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("num_systems", sa.Integer()),
        sa.Column("borrow_limit", sa.Integer()),
        sa.Column("max_node_groups", sa.Integer()),
        sa.Column("max_executes", sa.Integer()),
        sa.Column("max_compiles", sa.Integer()),
        sa.Column("shares", sa.Float(), nullable=False, server_default="1"),
        sa.Column("is_paused", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("members", sa.JSON(), nullable=False, server_default=_EMPTY_LIST),
        sa.Column("properties", sa.JSON(), nullable=False, server_default=_EMPTY_OBJECT),
        sa.Column("labels", sa.JSON(), nullable=False, server_default=_EMPTY_OBJECT),
    )
    for column in columns:
        op.add_column("sessions", column)
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
    op.create_table(
        "pod_memory",
        sa.Column("kind", sa.String(length=24), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind"),
    )


def _create_promises() -> None:
    op.create_table(
        "maintenance",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("system", sa.String(length=64), nullable=False),
        sa.Column("starts_at", _TIME, nullable=False),
        sa.Column("ends_at", _TIME, nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", "system"),
    )
    op.create_table(
        "reservations",
        sa.Column("workflow", sa.String(length=64), nullable=False),
        sa.Column("systems", sa.JSON(), nullable=False),
        sa.Column("node_groups", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["workflow"], ["workflows.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("workflow"),
    )
