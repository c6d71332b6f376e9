"""What the masks of a session let through of its weights."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of older sessions nothing is known."""
    op.add_column("run_sessions", sa.Column("masked_weights", sa.JSON()))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("run_sessions", "masked_weights")
