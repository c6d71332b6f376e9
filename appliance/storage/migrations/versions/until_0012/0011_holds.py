"""Who holds a waiting job back."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; nobody holds the jobs of before."""
    op.add_column("jobs", sa.Column("held_by", sa.String(256), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop it again."""
    op.drop_column("jobs", "held_by")
