"""The sessions of execute jobs, each with its pods' last readings."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; of sessions that are over nothing is known but the job's last readings."""
    op.create_table(
        "run_sessions",
        sa.Column(
            "job",
            sa.String(64),
            sa.ForeignKey("jobs.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("is_training", sa.Boolean, nullable=False),
        sa.Column("num_steps", sa.BigInteger, nullable=False),
        sa.Column("completed_steps", sa.BigInteger, nullable=False),
        sa.Column("step_seconds", sa.Double, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("readings", sa.JSON, nullable=False),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("run_sessions")
