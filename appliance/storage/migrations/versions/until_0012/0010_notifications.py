"""Whom to tell of jobs, and what is still to be sent."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0006"
branch_labels = None
depends_on = None


def _of_jobs() -> sa.ForeignKey:
    return sa.ForeignKey("jobs.id", ondelete="CASCADE")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "followed_jobs",
        sa.Column("job", sa.String(64), _of_jobs(), primary_key=True),
        sa.Column("targets", sa.JSON, nullable=False),
        sa.Column("seen", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("job", sa.String(64), _of_jobs(), nullable=False, index=True),
        sa.Column("target", sa.JSON, nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("num_attempts", sa.Integer, nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False, index=True),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("deliveries")
    op.drop_table("followed_jobs")
