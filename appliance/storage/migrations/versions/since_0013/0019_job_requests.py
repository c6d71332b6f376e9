"""The request that submitted a job is kept with it; it was a file of the job's work directory."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_REQUEST_FILE = "request.bin"
_TRACE_FILE = "trace"


def upgrade() -> None:
    """Create the table, and take the files in; that of a job whose directory is gone is lost."""
    requests = op.create_table(
        "job_requests",
        sa.Column(
            "job", sa.String(64), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("trace", sa.Text, nullable=False),
    )
    jobs = sa.text("SELECT id, work_dir FROM jobs WHERE type <> 'driver'")
    for job, work_dir in op.get_bind().execute(jobs).all():
        directory = Path(work_dir)
        if (directory / _REQUEST_FILE).is_file():
            row = {"job": job, "request": (directory / _REQUEST_FILE).read_bytes(), "trace": ""}
            if (directory / _TRACE_FILE).is_file():
                row["trace"] = (directory / _TRACE_FILE).read_text()
            op.bulk_insert(requests, [row])


def downgrade() -> None:
    """Write the files again, and drop the table."""
    kept = sa.text(
        "SELECT r.request, r.trace, j.work_dir FROM job_requests r JOIN jobs j ON j.id = r.job"
    )
    for request, trace, work_dir in op.get_bind().execute(kept):
        directory = Path(work_dir)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / _REQUEST_FILE).touch(mode=0o600)
        (directory / _REQUEST_FILE).write_bytes(request)
        if trace:
            (directory / _TRACE_FILE).write_text(trace)
    op.drop_table("job_requests")
