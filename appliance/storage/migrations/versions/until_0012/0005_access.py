"""Users, tokens and the audit trail."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    time = sa.DateTime(timezone=True)
    op.create_table(
        "users",
        sa.Column("name", sa.String(256), primary_key=True),
        sa.Column("uid", sa.BigInteger, nullable=False, unique=True),
        sa.Column("gid", sa.BigInteger, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("sessions", sa.JSON, nullable=False),
        sa.Column("created_at", time, nullable=False),
        sa.Column("blocked_at", time),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column(
            "username",
            sa.String(256),
            sa.ForeignKey("users.name", ondelete="CASCADE"),
            nullable=False,
            index=True,
        ),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("parent", sa.String(32), nullable=False, index=True),
        sa.Column("created_at", time, nullable=False),
        sa.Column("expires_at", time),
        sa.Column("revoked_at", time),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", time, nullable=False, index=True),
        sa.Column("username", sa.String(256), nullable=False, index=True),
        sa.Column("uid", sa.BigInteger, nullable=False),
        sa.Column("door", sa.String(16), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("name", sa.String(256), nullable=False, index=True),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in ("audit", "tokens", "users"):
        op.drop_table(table)
