"""Indexes in the order in which jobs are listed: by priority, the newest first."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One for all jobs, in place of one of the opposite order, and one for the unfinished."""
    op.drop_index("ix_jobs_priority_sequence", table_name="jobs")
    op.create_index("ix_jobs_priority_newest", "jobs", ["priority", sa.text("sequence DESC")])
    is_unfinished = sa.text("ended_at IS NULL")
    op.create_index(
        "ix_jobs_unfinished",
        "jobs",
        ["priority", sa.text("sequence DESC")],
        sqlite_where=is_unfinished,
        postgresql_where=is_unfinished,
    )


def downgrade() -> None:
    """As it was."""
    op.drop_index("ix_jobs_unfinished", table_name="jobs")
    op.drop_index("ix_jobs_priority_newest", table_name="jobs")
    op.create_index("ix_jobs_priority_sequence", "jobs", ["priority", "sequence"])
