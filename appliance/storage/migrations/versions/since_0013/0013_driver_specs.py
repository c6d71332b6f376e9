"""What drivers run is kept with them; it was a file of their work directory."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_FILE = "driver.json"


def upgrade() -> None:
    """Create the table, and take the files in; that of a driver whose directory is gone is lost."""
    specs = op.create_table(
        "driver_specs",
        sa.Column(
            "job", sa.String(64), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("spec", sa.Text, nullable=False),
    )
    drivers = sa.text("SELECT id, work_dir FROM jobs WHERE type = 'driver'")
    rows = [
        {"job": job, "spec": path.read_text()}
        for job, work_dir in op.get_bind().execute(drivers)
        if (path := Path(work_dir) / _FILE).is_file()
    ]
    if rows:
        op.bulk_insert(specs, rows)


def downgrade() -> None:
    """Write the files again, and drop the table."""
    kept = sa.text("SELECT s.spec, j.work_dir FROM driver_specs s JOIN jobs j ON j.id = s.job")
    for spec, work_dir in op.get_bind().execute(kept):
        path = Path(work_dir) / _FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(spec)
    op.drop_table("driver_specs")
