"""Which array a detached run belongs to; before, only its label said so."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and its index; runs of before belong to the array that their label names."""
    column = sa.Column("array_id", sa.String(64), nullable=False, server_default="")
    op.add_column("jobs", column)
    op.execute(
        "UPDATE jobs SET array_id = (SELECT value FROM labels WHERE job = jobs.id AND "
        "key = 'array') WHERE type = 'driver' AND EXISTS (SELECT 1 FROM labels WHERE "
        "job = jobs.id AND key = 'array' AND value LIKE 'array-%')"
    )
    is_member = sa.text("array_id != ''")
    op.create_index(
        "ix_jobs_array_id", "jobs", ["array_id"], sqlite_where=is_member, postgresql_where=is_member
    )


def downgrade() -> None:
    """Drop both again."""
    op.drop_index("ix_jobs_array_id", table_name="jobs")
    op.drop_column("jobs", "array_id")
