"""Series of jobs, and pages of long lists."""

import ctypes
import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError, StatementError

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import NewJob, User
from appliance.core.cluster.run import POD_SERIES, Point
from appliance.core.ids import JobId, WorkflowId
from appliance.core.queries.job_filter import JobFilter, JobOrder, JobPosition, JobSort
from appliance.core.queries.label_selector import equal_to
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from appliance.storage.queue.series import SeriesRepository
from tests.support.clock import FakeClock
from tests.support.management import move


@pytest.fixture
def state(tmp_path):
    database = Database.open_sqlite(tmp_path / "state.db")
    yield State.over(database, FakeClock())
    database.close()


def add_job(state: State, name: str, **traits) -> JobId:
    job = JobId(name)
    state.jobs.create(
        NewJob(
            **{
                "id": job,
                "type": JobType.EXECUTE,
                "session": "job-operator",
                "workflow": WorkflowId("wflow-1"),
                "user": User(uid=1000, gid=100, name="ada"),
                "num_systems": 1,
                **traits,
            }
        )
    )
    return job


def point(step: int, value: float | None = 1.0, name: str = "output_loss") -> Point:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return Point(name=name, session=1, step=step, value=value, at=at)


def test_a_series_is_read_from_where_one_left_off(state):
    job = add_job(state, "wsjob-a")
    state.series.add(job, [point(1, 2.0), point(2, None), point(2, 9.0, "samples_per_second")])
    found = state.series.of_job(job)
    assert [entry.value for _, entry in found["output_loss"]] == [2.0, None]
    newest = max(number for points in found.values() for number, _ in points)
    assert state.series.of_job(job, after=newest) == {}
    assert list(state.series.of_job(job, names=["samples_per_second"])) == ["samples_per_second"]
    assert state.series.latest([job])[job]["output_loss"].step == 2


def test_what_pods_use_is_a_series_but_no_last_value_of_the_program(state):
    job = add_job(state, "wsjob-a")
    state.series.add(job, [point(1), *(point(1, 2.0, name) for name in POD_SERIES)])
    assert set(state.series.of_job(job)) == {"output_loss", *POD_SERIES}
    assert set(state.series.latest([job])[job]) == {"output_loss"}


def test_a_long_series_keeps_its_course_and_its_end(state):
    job = add_job(state, "wsjob-a")
    series = SeriesRepository(state.database, max_points=100)
    for start in range(1, 1001, 50):
        series.add(job, [point(step) for step in range(start, start + 50)])
    steps = [entry.step for _, entry in series.of_job(job)["output_loss"]]
    assert len(steps) <= 200
    assert steps[0] == 1
    assert steps[-100:] == list(range(901, 1001))
    assert steps == sorted(steps)


def test_a_long_series_is_thinned_out_by_a_repository_that_found_it_so(state):
    job = add_job(state, "wsjob-a")
    SeriesRepository(state.database).add(job, [point(step) for step in range(1, 301)])
    SeriesRepository(state.database, max_points=100).add(job, [point(301)])
    steps = [entry.step for _, entry in state.series.of_job(job)["output_loss"]]
    assert len(steps) < 250
    assert steps[0] == 1
    assert steps[-100:] == list(range(202, 302))


def test_points_of_a_transaction_that_was_undone_do_not_count_for_long(state):
    job = add_job(state, "wsjob-a")
    series = SeriesRepository(state.database, max_points=100)
    series.add(job, [point(1)])
    with pytest.raises(IntegrityError):
        series.add(JobId("wsjob-nobody"), [point(1)])
    naive = replace(point(2), at=dt.datetime(2026, 1, 1))  # noqa: DTZ001 - is refused
    for _ in range(3):
        with pytest.raises(StatementError):
            series.add(job, [*(point(step) for step in range(2, 101)), naive])
    for step in range(2, 301):
        series.add(job, [point(step)])
    steps = [entry.step for _, entry in series.of_job(job)["output_loss"]]
    assert 100 <= len(steps) <= 200
    assert steps[-100:] == list(range(201, 301))


def test_the_next_point_of_a_series_does_not_read_those_before_it(state):
    job = add_job(state, "wsjob-a")
    state.series.add(job, [point(1), point(1, name="output_rate")])
    asked = []
    engine = state.database.engine

    def note(_connection, _cursor, statement, *_):
        asked.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    state.series.add(job, [point(2), point(2, name="output_rate"), point(3)])
    event.remove(engine, "before_cursor_execute", note)
    assert any(statement.startswith("INSERT INTO points") for statement in asked)
    assert [statement for statement in asked if statement.startswith("SELECT")] == []


def test_rows_that_nobody_reads_do_not_fill_the_memory_of_sqlite(state):
    memory = sqlite_memory()
    with state.database.transaction() as session:
        session.execute(text("CREATE TABLE filled (content TEXT)"))
    for _ in range(1000):
        with state.database.transaction() as session:
            session.execute(text(f"INSERT INTO filled VALUES ('{'x' * 3000}')"))
    assert memory() < 3_000_000  # half of it is pages of the last 500 rows


def sqlite_memory():
    """Return what tells the bytes that SQLite has allocated; skips where it cannot be asked."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "libsqlite3" in line:
            library = ctypes.CDLL(line.split()[-1])
            library.sqlite3_memory_used.restype = ctypes.c_int64
            return library.sqlite3_memory_used
    pytest.skip("SQLite is part of the interpreter")


def test_points_go_with_their_job(state):
    job = add_job(state, "wsjob-a")
    state.series.add(job, [point(1)])
    move(state.jobs, job, Phase.QUEUED, Phase.CANCELLED)
    state.jobs.delete(job)
    assert state.series.of_job(job) == {}


@pytest.mark.parametrize("order", JobOrder)
def test_pages_hold_every_job_once_in_order(state, order):
    for number in range(7):
        add_job(state, f"wsjob-{number}", priority=(299, 199)[number % 2])
    whole = state.job_pages.page(JobFilter(order=order, limit=100))
    paged, after = [], None
    while lines := state.job_pages.page(JobFilter(order=order, limit=3, after=after)):
        paged += lines
        after = JobPosition(priority=lines[-1].priority, sequence=lines[-1].sequence)
    assert paged == list(whole)
    assert len({line.id for line in paged}) == 7
    if order is JobOrder.PRIORITY:
        assert [line.priority for line in paged] == [199] * 3 + [299] * 4
        assert [line.sequence for line in paged] == [6, 4, 2, 7, 5, 3, 1]


def test_pages_hold_what_was_asked_for(state):
    bob = User(uid=1001, gid=100, name="bob")
    add_job(state, "wsjob-mine", labels={"model": "gpt", "size": "xl"})
    add_job(state, "wsjob-his", user=bob, labels={"model": "gpt"}, type=JobType.COMPILE)
    done = add_job(state, "wsjob-done")
    move(state.jobs, done, Phase.QUEUED, Phase.CANCELLED, message="enough")

    def found(**wanted) -> list[str]:
        lines = state.job_pages.page(JobFilter(order=JobOrder.OLDEST, **wanted))
        assert state.job_pages.count(JobFilter(**wanted)) == len(lines)
        return [line.id for line in lines]

    assert found() == ["wsjob-mine", "wsjob-his"]
    assert found(with_finished=True) == ["wsjob-mine", "wsjob-his", "wsjob-done"]
    assert found(phases=(Phase.CANCELLED,)) == ["wsjob-done"]
    assert found(user="bob") == found(uid=1001) == found(type=JobType.COMPILE) == ["wsjob-his"]
    assert found(labels=equal_to({"model": "gpt", "size": "xl"})) == ["wsjob-mine"]
    assert found(text="hi") == ["wsjob-his"]
    assert found(text="100%") == []
    assert found(text="model=gpt") == ["wsjob-mine", "wsjob-his"]
    assert found(text="GPT size=XL") == ["wsjob-mine"]
    assert found(text="bob compile") == ["wsjob-his"]
    assert found(text="bob execute") == []
    assert found(text="cancelled", with_finished=True) == ["wsjob-done"]
    assert found(session="elsewhere") == []
    assert state.job_pages.count_by_phase()["QUEUED", "execute", 2] == 1


def test_jobs_are_counted_by_buckets_of_a_hundred_priorities(state):
    for number, priority in enumerate((0, 99, 100, 199, 200, 300)):
        add_job(state, f"wsjob-{number}", priority=priority)
    counts = state.job_pages.count_by_phase()
    assert counts == {("QUEUED", "execute", bucket): n for bucket, n in enumerate((2, 2, 1, 1))}


@pytest.mark.parametrize("sort", JobSort)
def test_a_list_is_sorted_by_a_column_and_newest_first_within_it(state, sort):
    bob = User(uid=1001, gid=100, name="bob")
    add_job(state, "wsjob-0", num_systems=4, priority=299)
    add_job(state, "wsjob-1", num_systems=1, user=bob, type=JobType.COMPILE, priority=199)
    add_job(state, "wsjob-2", num_systems=4, priority=299)
    ended = add_job(state, "wsjob-3", num_systems=2, priority=99)
    move(state.jobs, ended, Phase.QUEUED, Phase.CANCELLED)
    value = {
        JobSort.PHASE: lambda line: line.phase.value,
        JobSort.TYPE: lambda line: line.type.value,
        JobSort.USER: lambda line: line.user.name,
        JobSort.PRIORITY: lambda line: line.priority,
        JobSort.SYSTEMS: lambda line: line.num_systems,
        JobSort.SUBMITTED: lambda line: line.sequence,
    }[sort]
    everything = state.job_pages.page(JobFilter(with_finished=True))
    newest_first = sorted(everything, key=lambda line: -line.sequence)
    for descending in (False, True):
        wanted = JobFilter(with_finished=True, sort=sort, descending=descending)
        lines = state.job_pages.page(wanted)
        assert list(lines) == sorted(newest_first, key=value, reverse=descending)
        assert state.job_pages.page(replace(wanted, limit=2, offset=1)) == list(lines)[1:3]


@pytest.mark.parametrize(
    ("values", "since"),
    [
        ([], None),
        ([1.0, 2.0], None),
        ([1.0, None, 2.0], None),
        ([None, 1.0, None, None], 3),
        ([None, None], 1),
    ],
)
def test_a_series_that_ends_with_no_number_says_since_when(state, values, since):
    job, other = add_job(state, "wsjob-a"), add_job(state, "wsjob-b")
    state.series.add(job, [point(step, value) for step, value in enumerate(values, start=1)])
    state.series.add(job, [point(9, 4.0, "samples_per_second")])
    state.series.add(other, [point(1, None)])
    assert [each.step for each in state.series.not_finite(job)] == (
        [] if since is None else [since]
    )


def test_the_first_nan_of_a_long_series_outlives_its_thinning(state):
    job = add_job(state, "wsjob-a")
    series = SeriesRepository(state.database, max_points=10)
    for step in range(1, 200):
        series.add(job, [point(step, 1.0 if step < 40 else None)])
    (first,) = series.not_finite(job)
    assert first.step == 40


def test_what_has_lost_its_number_is_known_at_once_and_after_a_restart(state):
    job, other = add_job(state, "wsjob-a"), add_job(state, "wsjob-b")
    for each in (job, other):
        state.series.add(each, [point(1, 1.0)])
    assert not state.series.may_end_in_gap(job)
    state.series.add(job, [point(2, None)])
    restarted = SeriesRepository(state.database)
    restarted.recall()
    for series in (state.series, restarted):
        assert series.may_end_in_gap(job)
        assert not series.may_end_in_gap(other)
