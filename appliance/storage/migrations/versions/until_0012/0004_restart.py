"""What a new management needs to go on: verdicts, who writes, how often a job was started."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the table; jobs of before have no verdict."""
    op.add_column("jobs", sa.Column("verdict", sa.JSON()))
    op.add_column("jobs", sa.Column("num_starts", sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "writers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade() -> None:
    """Drop them again."""
    op.drop_table("writers")
    op.drop_column("jobs", "num_starts")
    op.drop_column("jobs", "verdict")
