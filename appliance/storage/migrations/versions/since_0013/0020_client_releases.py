"""The release of the client that submitted a job."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of jobs of before it is not known."""
    column = sa.Column("client_release", sa.String(32), nullable=False, server_default="")
    op.add_column("jobs", column)


def downgrade() -> None:
    """Drop it again."""
    op.drop_column("jobs", "client_release")
