"""The whole text of a failure, of which a job's message is one line."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; messages of before stay as they are."""
    op.add_column("jobs", sa.Column("detail", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop it again."""
    op.drop_column("jobs", "detail")
