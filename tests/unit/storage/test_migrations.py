"""What earlier versions kept elsewhere is found again after an upgrade."""

import sqlite3
from contextlib import closing

import pytest
from alembic import command

from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import User
from appliance.core.errors import NotFoundError, UserError
from appliance.core.ids import JobId
from appliance.core.queries.job_filter import JobFilter
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from appliance.storage.engine.revisions import revisions
from appliance.storage.queue.job_requests import JobRequest
from tests.support.clock import FakeClock
from tests.support.management import new_job

SPEC = DriverSpec(argv=("train", "--x"), work_dir="/home/ada", environment={"A": "b"})


def migrate(database, revision, go):
    config = revisions()
    with database.engine.begin() as connection:
        config.attributes["connection"] = connection
        go(config, revision)


def test_what_drivers_run_moves_from_their_directories_into_the_database_and_back(tmp_path):
    database = Database.open_sqlite(tmp_path / "state.db")
    state = State.over(database, FakeClock())
    for name in ("wsjob-a", "wsjob-gone"):
        work_dir = str(tmp_path / name)
        with database.batch():
            state.jobs.create(new_job(name, type=JobType.DRIVER, num_systems=0, work_dir=work_dir))
            state.driver_specs.keep(JobId(name), SPEC)
    migrate(database, "0012", command.downgrade)
    file = tmp_path / "wsjob-a" / "driver.json"
    assert DriverSpec.from_json(file.read_text()) == SPEC
    assert file.stat().st_mode & 0o777 == 0o600
    (tmp_path / "wsjob-gone" / "driver.json").unlink()
    database.migrate()
    fresh = State.over(database, FakeClock())
    assert fresh.driver_specs.load(JobId("wsjob-a")) == SPEC
    with database.reading() as rows:
        kept = rows.connection().exec_driver_sql("SELECT count(*) FROM driver_specs").scalar()
    assert kept == 1
    database.close()


def test_the_requests_of_jobs_move_from_their_directories_into_the_database_and_back(tmp_path):
    database = Database.open_sqlite(tmp_path / "state.db")
    state = State.over(database, FakeClock())
    traced = JobRequest(message=b"\x00\xff", trace="00-1-2-01", trace_parent="00-1-1-01")
    requests = {"wsjob-a": traced, "wsjob-b": JobRequest(message=b"b"), "wsjob-gone": traced}
    for name, request in requests.items():
        with database.batch():
            state.jobs.create(new_job(name, work_dir=str(tmp_path / name)))
            state.requests.keep(JobId(name), request)
    migrate(database, "0018", command.downgrade)
    file = tmp_path / "wsjob-a" / "request.bin"
    assert file.read_bytes() == b"\x00\xff"
    assert file.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "wsjob-b" / "trace").exists()
    (tmp_path / "wsjob-gone" / "request.bin").unlink()
    database.migrate()
    fresh = State.over(database, FakeClock())
    assert fresh.requests.load(JobId("wsjob-a")) == traced
    assert fresh.requests.load(JobId("wsjob-b")) == JobRequest(message=b"b")
    with pytest.raises(NotFoundError, match="The request of job wsjob-gone is not kept"):
        fresh.requests.load(JobId("wsjob-gone"))
    database.close()


def test_a_downgrade_to_the_first_version_and_back_keeps_jobs_and_what_refers_to_them(tmp_path):
    database = Database.open_sqlite(tmp_path / "state.db")
    state = State.over(database, FakeClock())
    state.jobs.create(new_job("wsjob-a", labels={"model": "gpt"}, request_digest="d"))
    before = state.jobs.events(JobId("wsjob-a"))
    migrate(database, "0001", command.downgrade)
    database.migrate()
    fresh = State.over(database, FakeClock())
    job = fresh.jobs.load(JobId("wsjob-a"))
    assert (job.labels, job.request_digest) == ({"model": "gpt"}, "")
    assert fresh.jobs.events(JobId("wsjob-a")) == before
    database.close()


def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "state.db"
    Database.open_sqlite(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(UserError, match=r"is of revision '9999'; this version .* knows up to '00"):
        Database.open_sqlite(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("9999",)


def test_runs_of_before_belong_to_the_array_that_their_label_names(tmp_path):
    database = Database.open_sqlite(tmp_path / "state.db")
    state = State.over(database, FakeClock())
    labels = {"array": "array-x", "index": "1"}
    state.jobs.create(new_job("wsjob-a", type=JobType.DRIVER, labels=labels, array="array-x"))
    state.jobs.create(new_job("wsjob-b", labels=labels))
    migrate(database, "0020", command.downgrade)
    database.migrate()
    fresh = State.over(database, FakeClock())
    assert fresh.jobs.load(JobId("wsjob-a")).array == "array-x"
    assert fresh.jobs.load(JobId("wsjob-b")).array == ""
    database.close()


def test_workflows_of_before_are_runs_that_begin_with_their_owner_s_oldest_job(tmp_path):
    database = Database.open_sqlite(tmp_path / "state.db")
    state = State.over(database, FakeClock())
    of_array = {"name": "sweep", "array": "array-x", "index": "3"}
    for job in (
        new_job("wsjob-b", workflow="wflow-a", user=User(uid=1, gid=1, name="bob")),
        new_job("wsjob-d", workflow="wflow-a", type=JobType.DRIVER, labels={"name": "gpt"}),
        new_job("wsjob-e", workflow="wflow-a", labels={"name": "other"}),
        new_job("wsjob-i", workflow="wflow-i", labels=of_array, array="array-x"),
        new_job("wsjob-n", workflow="wflow-n", labels={"index": "3"}),
    ):
        state.jobs.create(job)
    for workflow in ("wflow-a", "wflow-i", "wflow-n", "wflow-none"):
        state.workflows.ensure(workflow, session="job-operator", user=new_job().user)
    migrate(database, "0023", command.downgrade)
    database.migrate()
    runs = State.over(database, FakeClock()).runs.page(JobFilter(with_finished=True))
    assert [(run.id, run.name, len(run.jobs)) for run in runs] == [
        ("wflow-n", "", 1),
        ("wflow-i", "sweep.3", 1),
        ("wflow-a", "gpt", 2),
    ]
    database.close()
