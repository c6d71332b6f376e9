"""The jobs that the end of an appliance would end, for whoever is about to end it."""

from contextlib import closing
from pathlib import Path

from appliance.core.clock import SystemClock
from appliance.core.cluster.records import JobRecord
from appliance.core.visible_text import visible
from appliance.management.store.databases import open_kept_database
from appliance.management.store.state import State

MOST_LINES = 20


def unfinished_jobs(directory: Path) -> list[str]:
    """Return a line for each job of an appliance that has not ended, oldest first.

    Args:
        directory: Its data directory.

    Raises:
        WscError: The database cannot be read.
    """
    with closing(open_kept_database(directory)) as database:
        jobs = State.over(database, SystemClock()).jobs.unfinished()
    lines = [_line(job) for job in jobs[:MOST_LINES]]
    more = len(jobs) - len(lines)
    return [*lines, f"and {more:,} more"] if more > 0 else lines


def _line(job: JobRecord) -> str:
    name = job.labels.get("name", "")
    words = (job.id, visible(name), job.type.value, job.phase.value, f"of {visible(job.user.name)}")
    return "  ".join(filter(None, words))
