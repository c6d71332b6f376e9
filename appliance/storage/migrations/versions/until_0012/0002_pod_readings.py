"""What pods report of themselves, by metric name."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; pods of earlier jobs have no readings."""
    op.add_column(
        "pods", sa.Column("readings", sa.JSON(), nullable=False, server_default=sa.text("'{}'"))
    )


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("pods", "readings")
