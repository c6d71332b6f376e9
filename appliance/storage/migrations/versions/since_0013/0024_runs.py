"""Workflows are runs: each names its first job, and has that one's name."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_FIRST = (
    "UPDATE workflows SET first_sequence = (SELECT min(sequence) FROM jobs "
    "WHERE jobs.workflow = workflows.id AND jobs.uid = workflows.uid)"
)
_NAMES = (
    "UPDATE workflows SET run_name = COALESCE((SELECT named.value || COALESCE('.' || place.value, "
    "'') FROM jobs JOIN labels AS named ON named.job = jobs.id AND named.key = 'name' "
    "LEFT JOIN labels AS place ON place.job = jobs.id AND place.key = 'index' "
    "AND jobs.array_id != '' WHERE jobs.sequence = workflows.first_sequence), '')"
)


def upgrade() -> None:
    """Add the columns and their indexes; jobs of before make the runs of their workflows."""
    op.add_column("workflows", sa.Column("first_sequence", sa.BigInteger(), nullable=True))
    column = sa.Column("run_name", sa.String(80), nullable=False, server_default="")
    op.add_column("workflows", column)
    op.execute(_FIRST)
    op.execute(_NAMES)
    op.create_index("ix_workflows_first_sequence", "workflows", ["first_sequence"])
    has_name = sa.text("run_name != ''")
    op.create_index(
        "ix_workflows_run_name",
        "workflows",
        ["run_name"],
        sqlite_where=has_name,
        postgresql_where=has_name,
    )


def downgrade() -> None:
    """Drop them again."""
    op.drop_index("ix_workflows_run_name", table_name="workflows")
    op.drop_index("ix_workflows_first_sequence", table_name="workflows")
    op.drop_column("workflows", "run_name")
    op.drop_column("workflows", "first_sequence")
