"""What is kept, and that a change and its event are one."""

import datetime as dt
from dataclasses import replace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import (
    EventRecord,
    Holding,
    NewJob,
    PodPlacement,
    PodRecord,
    Reservation,
    User,
)
from appliance.core.cluster.requirements import GroupKind, PodDemand, Requirements
from appliance.core.cluster.sessions import SessionSpec
from appliance.core.cluster.systems import (
    ClusterDescription,
    Node,
    NodeGroup,
    System,
    SystemEvent,
    SystemEventKind,
    SystemState,
)
from appliance.core.errors import ConflictError, InternalError, NotFoundError, StaleWriterError
from appliance.core.ids import JobId, Role, WorkflowId, pod_name
from appliance.core.queries.job_filter import JobFilter
from appliance.core.queries.label_selector import equal_to
from appliance.core.queries.system_event_filter import SystemEventFilter
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from appliance.storage.schema.tables import Base
from tests.support.management import move


def new_job(name: str = "wsjob-a", **changes) -> NewJob:
    fields = {
        "id": JobId(name),
        "type": JobType.EXECUTE,
        "session": "job-operator",
        "workflow": WorkflowId("wflow-1"),
        "user": User(uid=1000, gid=100, name="ada"),
        "num_systems": 2,
        "workers_per_system": 1,
    }
    return NewJob(**{**fields, **changes})


def run_to(state: State, job: str, *phases: Phase) -> None:
    current = Phase.QUEUED
    for phase in phases:
        systems = ["s1", "s0"] if phase is Phase.SCHEDULED else None
        move(state.jobs, JobId(job), current, phase, systems=systems)
        current = phase


def test_the_migrations_make_the_tables_that_the_code_expects(state):
    with state.database.engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, Base.metadata) == []


def test_a_new_job_is_queued_and_its_creation_is_in_its_events(state, clock):
    state.jobs.create(new_job(labels={"model": "gpt"}))
    job = state.jobs.load(JobId("wsjob-a"))
    assert job.phase is Phase.QUEUED
    assert job.labels == {"model": "gpt"}
    assert job.user.name == "ada"
    assert job.created_at == clock.now()
    assert [e.phase for e in state.jobs.events(job.id)] == [Phase.CREATED, Phase.QUEUED]


def test_a_phase_change_keeps_times_systems_and_an_event(state, clock):
    state.jobs.create(new_job())
    clock.advance(5)
    run_to(state, "wsjob-a", Phase.SCHEDULED, Phase.INITIALIZING)
    clock.advance(10)
    move(state.jobs, JobId("wsjob-a"), Phase.INITIALIZING, Phase.FAILED, message="pod died")
    job = state.jobs.load(JobId("wsjob-a"))
    assert job.systems == ("s1", "s0")
    assert (job.started_at - job.created_at).total_seconds() == 5
    assert (job.ended_at - job.created_at).total_seconds() == 15
    last = state.jobs.events(job.id)[-1]
    assert (last.phase, last.message, last.is_warning) == (Phase.FAILED, "pod died", True)


def test_a_job_keeps_one_line_of_a_long_reason_and_all_of_it_beside(state):
    state.jobs.create(new_job())
    text = 'Traceback (most recent call last):\n  File "/a/b.py", line 3, in f\nKeyError: 7'
    move(state.jobs, JobId("wsjob-a"), Phase.QUEUED, Phase.FAILED, message=text)
    for job in (
        state.jobs.load(JobId("wsjob-a")),
        state.jobs.list(JobFilter(with_finished=True))[0],
    ):
        assert (job.message, job.detail) == ("KeyError: 7 (at /a/b.py:3)", text)
    assert state.jobs.events(job.id)[-1].message == "KeyError: 7 (at /a/b.py:3)"


def test_a_phase_that_is_left_at_once_has_an_event_and_the_row_has_the_last_one(state):
    job = state.jobs.create(new_job())
    run_to(state, job.id, Phase.SCHEDULED)
    move(state.jobs, job.id, Phase.SCHEDULED, Phase.RUNNING, through=Phase.INITIALIZING)
    assert state.jobs.load(job.id).phase is Phase.RUNNING
    phases = [event.phase for event in state.jobs.events(job.id)]
    assert phases[-3:] == [Phase.SCHEDULED, Phase.INITIALIZING, Phase.RUNNING]
    with pytest.raises(InternalError, match="QUEUED to RUNNING"):
        move(state.jobs, job.id, Phase.RUNNING, Phase.RUNNING, through=Phase.QUEUED)


def test_times_are_kept_to_the_microsecond_and_come_back_in_utc(state):
    job = state.jobs.create(new_job()).id
    at = dt.datetime(2026, 1, 31, 1, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    told = EventRecord(job=job, at=at, reason="R", message="", subject=job, is_warning=False)
    state.jobs.add_event(told)
    state.jobs.add_event(replace(told, at=at.replace(microsecond=7)))
    kept = [each.at for each in state.jobs.events(job)[-2:]]
    assert kept == [at, at.replace(microsecond=7)]
    assert [each.utcoffset() for each in kept] == [dt.timedelta(0)] * 2
    with pytest.raises(ValueError, match="no time zone"):
        state.jobs.add_event(replace(told, at=at.replace(tzinfo=None)))


def test_a_writer_that_is_out_of_date_changes_nothing(state):
    state.jobs.create(new_job())
    run_to(state, "wsjob-a", Phase.SCHEDULED)
    with pytest.raises(ConflictError, match="not QUEUED any more"):
        move(state.jobs, JobId("wsjob-a"), Phase.QUEUED, Phase.CANCELLED)
    assert state.jobs.load(JobId("wsjob-a")).phase is Phase.SCHEDULED
    assert len(state.jobs.events(JobId("wsjob-a"))) == 3


def test_an_impossible_phase_change_is_a_defect(state):
    state.jobs.create(new_job())
    with pytest.raises(InternalError, match="QUEUED to RUNNING"):
        move(state.jobs, JobId("wsjob-a"), Phase.QUEUED, Phase.RUNNING)


def test_an_unknown_job_is_named(state):
    with pytest.raises(NotFoundError, match="wsjob-nix"):
        state.jobs.load(JobId("wsjob-nix"))


def test_filters_combine_and_the_newest_comes_first_within_a_priority(state):
    state.jobs.create(new_job("wsjob-old", labels={"a": "1", "b": "2"}))
    state.jobs.create(new_job("wsjob-new", labels={"a": "1"}))
    state.jobs.create(new_job("wsjob-urgent", priority=199, user=User(uid=7)))
    state.jobs.create(new_job("wsjob-done"))
    move(state.jobs, JobId("wsjob-done"), Phase.QUEUED, Phase.CANCELLED)

    def names(**wanted):
        return [job.id for job in state.jobs.list(JobFilter(**wanted))]

    assert names() == ["wsjob-urgent", "wsjob-new", "wsjob-old"]
    assert names(with_finished=True)[1] == "wsjob-done"
    assert names(labels=equal_to({"a": "1", "b": "2"})) == ["wsjob-old"]
    assert names(uid=7) == ["wsjob-urgent"]
    assert names(limit=1) == ["wsjob-urgent"]
    assert names(session="other") == []


def test_labels_are_added_replaced_and_removed(state):
    state.jobs.create(new_job(labels={"keep": "1", "change": "1", "drop": "1"}))
    job = state.jobs.patch_labels(JobId("wsjob-a"), {"change": "2", "drop": None, "add": "3"})
    assert job.labels == {"keep": "1", "change": "2", "add": "3"}


def test_only_a_job_that_has_ended_can_be_deleted(state):
    state.jobs.create(new_job(labels={"a": "1"}))
    with pytest.raises(ConflictError):
        state.jobs.delete(JobId("wsjob-a"))
    move(state.jobs, JobId("wsjob-a"), Phase.QUEUED, Phase.CANCELLED)
    state.jobs.delete(JobId("wsjob-a"))
    assert state.jobs.find(JobId("wsjob-a")) is None
    assert state.jobs.events(JobId("wsjob-a")) == []


def test_pods_are_listed_by_role_and_number(state, clock):
    state.jobs.create(new_job())
    job = JobId("wsjob-a")
    wanted = [(Role.COORDINATOR, 0), (Role.WEIGHT, 0), (Role.CHIEF, 0), (Role.CHIEF, 1)]
    state.pods.create(
        PodRecord(name=pod_name(job, role, n), job=job, role=role, index=n, node="n")
        for role, n in reversed(wanted)
    )
    state.pods.set_running({pod_name(job, Role.CHIEF, 1): 42})
    state.pods.set_ended(pod_name(job, Role.CHIEF, 0), exit_code=137, message="m", at=clock.now())
    state.pods.set_stopped(job, at=clock.now())
    pods = state.pods.of_job(job)
    assert [(pod.role, pod.index) for pod in pods] == wanted
    assert [pod.phase for pod in pods] == ["Succeeded", "Succeeded", "Failed", "Succeeded"]
    assert pods[3].pid == 42


def test_a_lease_expires_unless_it_is_renewed(state, clock):
    state.leases.grant("wsjob-a", seconds=30)
    clock.advance(25)
    assert state.leases.renew("wsjob-a", holder="laptop")
    clock.advance(25)
    assert state.leases.expired() == []
    clock.advance(5)
    (lease,) = state.leases.expired()
    assert (lease.id, lease.seconds, lease.holder) == ("wsjob-a", 30, "laptop")
    state.leases.end("wsjob-a")
    assert not state.leases.renew("wsjob-a", holder="laptop")


def test_a_client_may_ask_for_a_longer_lease(state, clock):
    state.leases.grant("wflow-1", seconds=30)
    state.leases.renew("wflow-1", holder="", seconds=120)
    clock.advance(119)
    assert state.leases.expired() == []


def test_a_workflow_that_the_client_names_itself_is_kept_once(state):
    user = User(uid=1)
    state.workflows.ensure(WorkflowId("wflow-x"), session="job-operator", user=user)
    state.workflows.ensure(WorkflowId("wflow-x"), session="other", user=User(uid=2))
    workflow = state.workflows.find(WorkflowId("wflow-x"))
    assert workflow is not None
    assert (workflow.session, workflow.user) == ("job-operator", user)
    state.workflows.release(WorkflowId("wflow-x"))
    with pytest.raises(NotFoundError):
        state.workflows.release(WorkflowId("wflow-y"))


def test_systems_are_replaced_as_a_whole(state):
    state.systems.replace(ClusterDescription(systems=(System(name="a"), System(name="b"))))
    drained = state.systems.change(System(name="b", state=SystemState.DRAIN, notes="hot"))
    assert (drained.version, drained.notes) == (2, "hot")
    wanted = ClusterDescription(
        systems=(System(name="c", block="leaf1"), System(name="b")),
        nodes=(Node(name="m0", roles=("management",), num_cores=8, memory_bytes=2**40),),
        node_groups=(NodeGroup(name="g0", kind=GroupKind.XLARGE, num_nodes=12),),
        pod_memory_bytes={"compile": 67 * 2**30},
    )
    state.systems.replace(wanted)
    found = state.systems.describe()
    assert [(s.name, s.state) for s in found.systems] == [("c", "up"), ("b", "drain")]
    assert found.systems[0].block == "leaf1"
    assert replace(found, systems=wanted.systems) == wanted


def test_a_change_on_stale_knowledge_is_refused(state):
    state.systems.replace(ClusterDescription(systems=(System(name="a"),)))
    state.systems.change(System(name="a", is_healthy=False))
    with pytest.raises(ConflictError, match="version 2; the change rests on version 1"):
        state.systems.change(System(name="a", state=SystemState.MAINTENANCE))
    state.sessions.ensure("team")
    spec = SessionSpec(num_systems=2, members=("ada",), labels={"k": "v"})
    changed = state.sessions.change("team", spec, version=1, by="root", message="more")
    assert (changed.version, changed.spec) == (2, spec)
    assert [(u.by, u.message) for u in state.sessions.history("team")] == [("root", "more")]
    with pytest.raises(ConflictError, match="version 2"):
        state.sessions.change("team", SessionSpec(), version=1, by="", message="")


@pytest.mark.parametrize("session", ["", "job-operator"])
def test_the_first_of_many_waiting_jobs_are_found_in_order_without_sorting(
    tmp_path, clock, session
):
    database = Database.open_sqlite(tmp_path / "state.db")
    asked = []
    event.listen(database.engine, "before_cursor_execute", lambda *call: asked.append(call[2:4]))
    State.over(database, clock).jobs.list(JobFilter(session=session, limit=500))
    sql, values = next(call for call in asked if "ORDER BY jobs.priority" in call[0])
    with database.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all()
    database.close()
    assert [row for row in plan if "B-TREE" in row.detail] == []


def test_jobs_are_listed_by_the_release_of_their_client(state):
    for name, release in (("wsjob-a", "2.9.0"), ("wsjob-b", "2.10.0"), ("wsjob-c", "")):
        state.jobs.create(new_job(name, client_release=release))
    assert [job.id for job in state.jobs.list(JobFilter(client_release="2.9.0"))] == ["wsjob-a"]
    assert state.jobs.load("wsjob-b").client_release == "2.10.0"


def test_unfinished_jobs_of_a_request_are_found_until_their_client_shows(state, clock):
    for name in ("wsjob-a", "wsjob-b", "wsjob-c", "wsjob-ended"):
        state.jobs.create(new_job(name, request_digest="d"))
        state.leases.grant(name, seconds=30)
    state.jobs.create(new_job("wsjob-other"))
    state.leases.grant("wsjob-other", seconds=30)
    run_to(state, "wsjob-ended", Phase.CANCELLED)
    state.leases.renew("wsjob-b", holder="user-node")
    assert [job.id for job in state.jobs.unclaimed("d", since=clock.now())] == [
        "wsjob-c",
        "wsjob-a",
    ]
    assert state.jobs.unclaimed("", since=clock.now()) == []
    assert state.jobs.unclaimed("d", since=clock.now() + dt.timedelta(seconds=1)) == []


def test_a_workflow_keeps_what_it_holds_until_it_is_released(state):
    workflow = WorkflowId("wflow-k")
    state.workflows.ensure(workflow, session="job-operator", user=User(uid=1))
    state.workflows.reserve(workflow)
    record = state.workflows.find(workflow)
    assert record is not None
    state.workflows.keep(Reservation(workflow=record, systems=("a",)))
    state.workflows.keep(Reservation(workflow=record, systems=("a", "b"), node_groups=("g",)))
    (kept,) = state.workflows.reservations()
    assert (kept.systems, kept.node_groups) == (("a", "b"), ("g",))
    state.workflows.release(workflow)
    assert state.workflows.reservations() == []


def test_what_a_job_requires_and_holds_is_kept(state):
    wanted = Requirements(
        num_node_groups=2,
        group_kind=GroupKind.LARGE,
        pods=(PodDemand(role="management", memory_bytes=5),),
        limit_seconds=60.0,
    )
    state.jobs.create(new_job(requirements=wanted))
    pod = PodPlacement(node="m0", role="management", count=1, memory_bytes=5, num_cores=0)
    holding = Holding(node_groups=("g0", "g1"), pods=(pod,), reserved_systems=("s9",))
    move(
        state.jobs, JobId("wsjob-a"), Phase.QUEUED, Phase.SCHEDULED, systems=["s0"], holding=holding
    )
    job = state.jobs.load(JobId("wsjob-a"))
    assert (job.requirements, job.holding) == (wanted, holding)


def test_old_jobs_are_forgotten_with_all_that_belongs_to_them(state, clock):
    for name in ("wsjob-old", "wsjob-older", "wsjob-runs"):
        state.jobs.create(new_job(name, work_dir=f"/data/{name}", labels={"k": "v"}))
    run_to(state, "wsjob-older", Phase.SCHEDULED, Phase.FAILED)
    assert state.jobs.prune(clock.now(), limit=9) == []  # it has not ended before
    clock.advance(10)
    run_to(state, "wsjob-old", Phase.SCHEDULED, Phase.FAILED)
    clock.advance(10)
    assert state.jobs.prune(clock.now(), limit=1) == [("wsjob-older", "/data/wsjob-older")]
    assert state.jobs.prune(clock.now(), limit=9) == [("wsjob-old", "/data/wsjob-old")]
    assert [job.id for job in state.jobs.list(JobFilter(with_finished=True))] == ["wsjob-runs"]
    assert state.jobs.events(JobId("wsjob-old")) == []


def test_old_events_of_systems_are_forgotten_the_oldest_first(state, clock):
    for system in "abcd":
        event = SystemEvent(system=system, at=clock.now(), kind=SystemEventKind.STALL)
        state.system_events.add(event)
        clock.advance(10)
    before = clock.now() - dt.timedelta(seconds=10)
    assert state.system_events.prune(before, limit=1) == 1
    left = [event.system for event in state.system_events.list(SystemEventFilter())]
    assert left == ["b", "c", "d"]
    assert state.system_events.prune(before, limit=9) == 2
    assert [event.system for event in state.system_events.list(SystemEventFilter())] == ["d"]


def test_a_batch_is_one_transaction_and_a_step_of_it_can_fail_alone(state):
    state.jobs.create(new_job("wsjob-a"))
    with state.database.batch():
        state.jobs.set_message(state.jobs.load(JobId("wsjob-a")), "kept")
        with pytest.raises(ConflictError):
            fail_halfway(state)
        assert state.jobs.load(JobId("wsjob-a")).message == "kept"
    job = state.jobs.load(JobId("wsjob-a"))
    assert (job.message, job.priority) == ("kept", 299)
    with pytest.raises(ConflictError), state.database.batch():
        fail_halfway(state)
    assert state.jobs.load(JobId("wsjob-a")).message == "kept"


def fail_halfway(state):
    with state.database.step():
        state.jobs.set_priority(state.jobs.load(JobId("wsjob-a")), 1)
        move(state.jobs, JobId("wsjob-a"), Phase.RUNNING, Phase.FAILED)
        state.database.settle()


def test_only_the_last_to_claim_a_database_may_write(state):
    state.jobs.create(new_job("wsjob-a"))
    state.database.claim()
    state.jobs.set_message(state.jobs.load(JobId("wsjob-a")), "mine")
    other = Database(state.database.url)
    other.claim()
    with pytest.raises(StaleWriterError):
        state.jobs.set_message(state.jobs.load(JobId("wsjob-a")), "too late")
    with pytest.raises(StaleWriterError), state.database.batch():
        state.jobs.set_message(state.jobs.load(JobId("wsjob-a")), "too late")
    assert state.jobs.load(JobId("wsjob-a")).message == "mine"
    other.close()
