"""An index in the order in which the unfinished jobs of one session are listed."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Without it all of a session's jobs are sorted for a list of the first."""
    is_unfinished = sa.text("ended_at IS NULL")
    op.create_index(
        "ix_jobs_unfinished_of_session",
        "jobs",
        ["session", "priority", sa.text("sequence DESC")],
        sqlite_where=is_unfinished,
        postgresql_where=is_unfinished,
    )


def downgrade() -> None:
    """Drop it again."""
    op.drop_index("ix_jobs_unfinished_of_session", table_name="jobs")
