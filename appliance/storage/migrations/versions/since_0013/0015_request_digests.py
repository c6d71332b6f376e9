"""By which a call that comes again finds the job that it made before."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and its index; jobs of before, and detached runs, have none."""
    column = sa.Column("request_digest", sa.String(64), nullable=False, server_default="")
    op.add_column("jobs", column)
    has_digest = sa.text("request_digest != ''")
    op.create_index(
        "ix_jobs_request_digest",
        "jobs",
        ["request_digest"],
        sqlite_where=has_digest,
        postgresql_where=has_digest,
    )


def downgrade() -> None:
    """Drop both again."""
    op.drop_index("ix_jobs_request_digest", table_name="jobs")
    op.drop_column("jobs", "request_digest")
