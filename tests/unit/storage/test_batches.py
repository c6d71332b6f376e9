"""Many rows in one transaction: their order, what fails alone, and what memory knows of it."""

from dataclasses import replace

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import EventRecord, Holding, PodRecord
from appliance.core.errors import ConflictError
from appliance.core.ids import JobId, Role, pod_name
from appliance.core.queries.job_filter import JobFilter, JobPosition
from appliance.core.queries.label_selector import equal_to
from appliance.management.store.state import State
from appliance.storage.engine.database import WouldWaitError
from tests.support.management import move, new_job, opened_state

NUM_JOBS = 75  # more than a portion of each size


def names(count=NUM_JOBS):
    return [JobId(f"wsjob-{number:02d}") for number in range(count)]


def event_of(job, state):
    return EventRecord(
        job=JobId(job), at=state.clock.now(), reason="Told", message="m", subject=job
    )


def kept(state, job):
    """Return a job as somebody sees it who has no memory of it."""
    return State.over(state.database, state.clock).jobs.find(job)


def pods_of(job):
    return [
        PodRecord(name=pod_name(job, role, 0), job=job, role=role, index=0, node="n")
        for role in (Role.COORDINATOR, Role.CHIEF)
    ]


def run(state, job):
    """Let a job go from its submission to its last step, and back into the queue in between."""
    jobs = state.jobs
    record = jobs.create(new_job(job, labels={"of": job}))
    holding = Holding(node_groups=("g",))
    record = jobs.change_phase(record, Phase.SCHEDULED, systems=["s1", "s0"], holding=holding)
    state.pods.create(pods_of(job))
    record = jobs.set_verdict(record, {"phase": "QUEUED", "message": "first"})
    record = jobs.change_phase(record, Phase.QUEUED, message="preempted")
    record = jobs.change_phase(record, Phase.SCHEDULED, systems=["s2"])
    state.pods.set_stopped(job, at=state.clock.now())
    state.pods.create(pods_of(job))
    state.pods.set_running({pod.name: 7 for pod in pods_of(job)})
    record = jobs.set_service_address(record, f"localhost:{job[-2:]}")
    record = jobs.change_phase(record, Phase.INITIALIZING)
    record = jobs.change_phase(record, Phase.RUNNING)
    record = jobs.set_verdict(record, {"phase": "SUCCEEDED", "message": "a"})
    return jobs.set_verdict(record, {"phase": "SUCCEEDED", "message": "b"})


def test_rows_of_one_job_keep_their_order_among_those_of_many(state):
    left = {}
    with state.database.batch():
        for job in names():
            with state.database.step():
                left[job] = run(state, job)
    for job in names():
        record = kept(state, job)
        assert record.phase is Phase.RUNNING
        assert (record.systems, record.holding, record.num_starts) == (("s2",), Holding(), 2)
        assert record.verdict["message"] == "b"
        assert record.service_address == f"localhost:{job[-2:]}"
        assert record == state.jobs.load(job) == left[job]
        assert [event.phase for event in state.jobs.events(job)] == [
            *(Phase.CREATED, Phase.QUEUED, Phase.SCHEDULED, Phase.QUEUED),
            *(Phase.SCHEDULED, Phase.INITIALIZING, Phase.RUNNING),
        ]
        assert [(pod.phase, pod.pid) for pod in state.pods.of_job(job)] == [("Running", 7)] * 2
    numbers = [state.jobs.load(job).sequence for job in names()]
    assert numbers == sorted(set(numbers))


def statements_of(state, jobs):
    """Return how many statements take jobs from their submission to their last step."""
    executed = []
    with state.database.engine.connect() as connection:
        driver = connection.connection.driver_connection
    driver.set_trace_callback(executed.append)
    with state.database.batch():
        for job in jobs:
            with state.database.step():
                run(state, job)
    driver.set_trace_callback(None)
    return sum(each.startswith(("INSERT", "UPDATE", "DELETE")) for each in executed)


def test_two_jobs_take_no_more_statements_than_one_whatever_they_go_through(tmp_path):
    with opened_state(tmp_path) as state:
        state.jobs.create(new_job("wsjob-first"))  # later numbers follow from it
        one, *two = names(3)
        assert statements_of(state, two) <= statements_of(state, [one])


def test_what_the_database_refuses_is_undone_alone(state):
    failures = []
    first = state.jobs.create(new_job("wsjob-a"))
    with state.database.batch():
        for job in names(3):
            with state.database.step(failures.append):
                state.jobs.create(new_job(job))
                if job == "wsjob-01":
                    state.jobs.add_event(event_of("wsjob-nobody", state))
        state.jobs.set_message(first, "kept")
    (failure,) = failures
    assert isinstance(failure, IntegrityError)
    assert [state.jobs.find(job) is not None for job in names(3)] == [True, False, True]
    assert state.jobs.events(JobId("wsjob-01")) == []
    assert kept(state, JobId("wsjob-a")).message == "kept"


def test_later_steps_of_a_job_fail_with_the_one_they_rest_on_and_are_undone_first(state):
    job, order = JobId("wsjob-a"), []
    record = state.jobs.create(new_job(job))
    other = State.over(state.database, state.clock)
    other.jobs.change_phase(record, Phase.CANCELLED)
    with state.database.batch():
        with state.database.step(lambda error: order.append(("first", str(error)))):
            record = state.jobs.change_phase(record, Phase.SCHEDULED)
        with state.database.step(lambda error: order.append(("second", str(error)))):
            state.jobs.change_phase(record, Phase.INITIALIZING)
    assert order == [
        ("second", "Job wsjob-a is not SCHEDULED any more."),
        ("first", "Job wsjob-a is not QUEUED any more."),
    ]
    assert kept(state, job).phase is Phase.CANCELLED


def write_in_vain(state, job, fail):
    with state.database.batch():
        state.jobs.set_message(state.jobs.load(job), "lost")
        state.jobs.create(new_job("wsjob-b"))
        fail()


def test_memory_knows_nothing_of_a_batch_that_fails(state):
    job = JobId("wsjob-a")
    state.jobs.create(new_job(job))
    with pytest.raises(ZeroDivisionError):
        write_in_vain(state, job, lambda: 1 / 0)
    assert state.jobs.load(job).message == ""
    assert state.jobs.find(JobId("wsjob-b")) is None
    strange = event_of("wsjob-nobody", state)
    with pytest.raises(IntegrityError):
        write_in_vain(state, job, lambda: state.jobs.add_event(strange))
    assert state.jobs.load(job).message == ""
    with pytest.raises(ConflictError):
        move(state.jobs, job, Phase.RUNNING, Phase.FAILED)
    assert state.jobs.load(job).phase is Phase.QUEUED


def test_a_job_is_answered_from_memory_as_it_is_kept(state):
    job = JobId("wsjob-a")
    state.jobs.create(new_job(job, labels={"a": "1"}))
    state.jobs.patch_labels(job, {"a": None, "b": "2"})
    stale = state.jobs.set_priority(state.jobs.load(job), 99)
    state.jobs.set_artifact_dir(stale, "/artifacts")
    state.jobs.change_phase(stale, Phase.CANCELLED, message="enough")
    with state.database.without_waiting():
        known = state.jobs.load(job)
        with pytest.raises(WouldWaitError):
            state.jobs.events(job)
        with pytest.raises(WouldWaitError):
            state.jobs.set_message(known, "no")
    assert known == kept(state, job)
    assert known.labels == {"b": "2"}
    state.jobs.delete(job)
    assert state.jobs.find(job) is None


def test_the_first_jobs_of_a_list_are_those_of_the_whole_list(state):
    with state.database.batch():
        for number, job in enumerate(names(12)):
            labels = {"even": "1"} if number % 2 == 0 else {}
            state.jobs.create(new_job(job, priority=(99, 299, 399)[number % 3], labels=labels))
    move(state.jobs, names(12)[1], Phase.QUEUED, Phase.CANCELLED)
    fresh = State.over(state.database, state.clock)
    for wanted in (
        JobFilter(),
        JobFilter(labels=equal_to({"even": "1"})),
        JobFilter(with_finished=True),
    ):
        everything = fresh.jobs.list(wanted)
        assert len(everything) >= 6
        for limit in (1, 5, 99):
            some = replace(wanted, limit=limit)
            assert fresh.jobs.list(some) == state.jobs.list(some) == everything[:limit]


@pytest.mark.parametrize("wanted", [{}, {"with_finished": True}, {"phases": (Phase.QUEUED,)}])
def test_a_page_of_a_long_list_is_read_in_the_order_of_an_index(tmp_path, wanted):
    with opened_state(tmp_path) as state:
        statements = []
        engine = state.database.engine
        event.listen(engine, "before_cursor_execute", lambda *told: statements.append(told[2:4]))
        state.jobs.list(JobFilter(with_finished="with_finished" in wanted, limit=9))
        for after in (None, JobPosition(priority=299, sequence=7)):
            state.job_pages.page(JobFilter(after=after, **wanted))
        lists = [told for told in statements if "ORDER BY jobs.priority" in told[0]]
        assert len(lists) == 3
        with engine.connect() as connection:
            for sql, values in lists:
                steps = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all()
                assert "USING" in steps[0].detail, steps
                assert not any("TEMP B-TREE" in step.detail for step in steps), steps


def test_the_unfinished_jobs_are_found_with_all_that_belongs_to_them(state):
    second = [run(state, job) for job in names(3)][1]
    state.jobs.change_phase(second, Phase.FAILED)
    found = State.over(state.database, state.clock).jobs.unfinished()
    assert found == [state.jobs.load(job) for job in (names(3)[0], names(3)[2])]


def test_leases_begin_anew_when_a_management_comes_back(state, clock):
    for job in ("wsjob-a", "wsjob-b"):
        state.leases.grant(job, seconds=10)
    state.leases.grant("wflow-1", seconds=20)
    clock.advance(60)
    state.leases.resume(
        ["wsjob-a", "wsjob-c", "wsjob-d"], clients=["wsjob-a", "wsjob-c"], seconds=5
    )
    assert state.leases.expired() == []
    assert [state.leases.exists(f"wsjob-{letter}") for letter in "abcd"] == [
        True,
        False,
        True,
        False,
    ]
    clock.advance(6)
    assert [lease.id for lease in state.leases.expired()] == ["wsjob-c"]
    clock.advance(5)
    assert {lease.id for lease in state.leases.expired()} == {"wsjob-a", "wsjob-c"}


def test_a_client_has_time_to_reach_a_management_that_was_away(state, clock):
    state.leases.grant("wflow-1", seconds=10)
    state.leases.resume([], clients=[], seconds=10, grace_seconds=120.0)
    clock.advance(129.0)
    assert state.leases.expired() == []
    clock.advance(2.0)
    assert [lease.id for lease in state.leases.expired()] == ["wflow-1"]
