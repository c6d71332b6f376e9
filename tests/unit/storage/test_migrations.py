"""What a release has kept is read by the next; what is from before the first is refused.

`releases/` has the database of each release, as SQL: of 0.1.0 a job that has ended and a run that
waits. A release adds its own when it is made (CONTRIBUTING.md, Releases).
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.jobs import Phase
from appliance.core.errors import UserError
from appliance.core.ids import JobId, WorkflowId
from appliance.core.queries.job_filter import JobFilter
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from appliance.storage.queue.job_requests import JobRequest
from tests.support.clock import FakeClock

RELEASES = Path(__file__).with_name("releases")
SPEC = DriverSpec(argv=("train", "--x"), work_dir="/home/ada", environment={"A": "b"})
TRACED = JobRequest(message=b"\x00\xff", trace="00-1-2-01", trace_parent="00-1-1-01")


@pytest.fixture(params=sorted(RELEASES.glob("*.sql")), ids=lambda path: path.stem)
def kept(request, tmp_path):
    """Return the database of a release."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(request.param.read_text())
    return path


def test_a_release_reads_what_those_before_it_have_kept(kept):
    database = Database.open_sqlite(kept)
    state = State.over(database, FakeClock())
    ended, waiting = state.jobs.load(JobId("wsjob-a")), state.jobs.load(JobId("wsjob-b"))
    assert (ended.phase, ended.labels, ended.user.name) == (
        Phase.SUCCEEDED,
        {"model": "gpt"},
        "ada",
    )
    assert [event.phase for event in state.jobs.events(ended.id)][-2:] == [
        Phase.RUNNING,
        Phase.SUCCEEDED,
    ]
    assert state.requests.load(ended.id) == TRACED
    assert (waiting.phase, waiting.workflow) == (Phase.QUEUED, WorkflowId("wflow-2"))
    assert state.driver_specs.load(waiting.id) == SPEC
    assert [run.id for run in state.runs.page(JobFilter(with_finished=True))] == [
        "wflow-2",
        "wflow-1",
    ]
    assert [system.name for system in state.systems.list()] == ["systemf0", "systemf1"]
    database.close()


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("9999", r"is of revision '9999'; this version .* knows up to '00"),
        ("0012", r"is of revision '0012', from before release 0.1.0"),
        ("0023", r"is of revision '0023', from before release 0.1.0"),
    ],
)
def test_a_database_that_is_too_new_or_too_old_is_refused_and_left_as_it_is(
    tmp_path, revision, words
):
    path = tmp_path / "state.db"
    Database.open_sqlite(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        connection.commit()
    with pytest.raises(UserError, match=words):
        Database.open_sqlite(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (
            revision,
        )
