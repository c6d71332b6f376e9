"""Sessions and their quotas."""

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.sessions import SessionSpec
from appliance.core.errors import ConflictError, NotFoundError, UserError
from appliance.core.ids import JobId
from appliance.management.cluster.session_service import SessionService
from tests.support.clock import FakeClock
from tests.support.management import make_model, move, new_job, opened_state


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def state(tmp_path, clock):
    with opened_state(tmp_path, clock) as state:
        yield state


@pytest.fixture
def model(state):
    return make_model(state, num_systems=4)


@pytest.fixture
def sessions(state, model):
    return SessionService(state, model)


def test_a_session_is_created_changed_paused_and_deleted(sessions, model):
    told = []
    model.on_change(lambda: told.append(1))
    sessions.create("team-a", SessionSpec(num_systems=2, borrow_limit=1), by="root")
    changed = sessions.update("team-a", {"num_systems": 3}, by="eve")
    assert (changed.spec.max_systems, changed.version) == (4, 2)
    assert sessions.pause("team-a").spec.is_paused
    assert not sessions.unpause("team-a").spec.is_paused
    assert [(u.by, u.message) for u in sessions.view("team-a").history][:2] == [
        ("root", "num_systems: None -> 2, borrow_limit: None -> 1"),
        ("eve", "num_systems: 2 -> 3"),
    ]
    sessions.delete("team-a")
    assert [s.name for s in sessions.list()] == ["job-operator"]
    assert len(told) == 5
    with pytest.raises(NotFoundError, match="no session 'team-a'"):
        sessions.load("team-a")


def test_quotas_never_exceed_what_exists(sessions):
    sessions.create("a", SessionSpec(num_systems=3))
    with pytest.raises(UserError, match=r"asks for 2 system\(s\) of its own; of 4, 3 are other"):
        sessions.create("b", SessionSpec(num_systems=2))
    sessions.create("b", SessionSpec(num_systems=1))
    with pytest.raises(UserError, match="of 4, 3 are"):
        sessions.update("b", {"num_systems": 2})


def test_a_dry_run_checks_and_keeps_nothing(sessions):
    assert sessions.create("a", SessionSpec(num_systems=3), dry_run=True).spec.num_systems == 3
    assert [s.name for s in sessions.list()] == ["job-operator"]
    sessions.create("a", SessionSpec())
    assert sessions.update("a", {"shares": 2.0}, dry_run=True).spec.shares == 2.0
    assert sessions.load("a").spec.shares == 1.0
    with pytest.raises(UserError, match="asks for 5"):
        sessions.update("a", {"num_systems": 5}, dry_run=True)


@pytest.mark.parametrize("name", ["", "A", "-a", "a" * 64, "a_b"])
def test_a_name_that_is_none_is_refused(sessions, name):
    with pytest.raises(UserError, match="no name for a session"):
        sessions.create(name, SessionSpec())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_systems": -1}, "num_systems of session 'a' is -1"),
        ({"max_executes": "two"}, "max_executes of session 'a' is 'two'"),
        ({"shares": 0.0}, "0 shares"),
        ({"labels": {"-": "x"}}, "Label"),
        ({"labels": {f"k{n}": "x" for n in range(65)}}, "would have 65 labels; 64 are the most"),
        ({"colour": "red"}, "no field 'colour'"),
    ],
)
def test_a_value_that_is_none_is_refused(sessions, changes, message):
    sessions.create("a", SessionSpec())
    with pytest.raises(UserError, match=message):
        sessions.update("a", changes)


def test_a_stale_change_is_refused(sessions):
    sessions.create("a", SessionSpec())
    sessions.update("a", {"shares": 2.0}, version=1)
    with pytest.raises(ConflictError, match="version 2"):
        sessions.update("a", {"shares": 3.0}, version=1)


def test_a_session_with_jobs_is_busy_and_stays(sessions, state, clock):
    sessions.create("a", SessionSpec())
    clock.advance(10)
    assert sessions.view("a").idle_seconds == 10
    state.jobs.create(new_job("wsjob-r", session="a"))
    state.jobs.create(new_job("wsjob-q", session="a"))
    held = ["systemf1", "systemf2"]
    move(state.jobs, JobId("wsjob-r"), Phase.QUEUED, Phase.SCHEDULED, systems=held)
    view = sessions.view("a")
    assert (view.num_running, view.num_queued, view.idle_seconds) == (1, 1, 0)
    assert view.systems == ("systemf1", "systemf2")
    with pytest.raises(ConflictError, match=r"2 unfinished job\(s\)"):
        sessions.delete("a")
    with pytest.raises(ConflictError, match="cannot be deleted"):
        sessions.delete("job-operator")


def test_a_job_goes_where_it_says_else_where_its_user_belongs(sessions):
    sessions.create("a", SessionSpec(members=("ada", "bob")))
    sessions.create("b", SessionSpec(members=("bob",)))
    assert sessions.session_for("", "ada") == "a"
    assert sessions.session_for("b", "ada") == "b"
    assert sessions.session_for("", "bob") == "job-operator"
    assert sessions.session_for("", "") == "job-operator"
    with pytest.raises(NotFoundError):
        sessions.session_for("c", "ada")


def test_a_session_whose_namespace_is_at_fault_takes_no_jobs_until_it_is_repaired(sessions):
    sessions.create("research", SessionSpec(members=("ada",)))
    sessions.refuse_jobs("research", ConflictError("It is gone.", hint="Create it."))
    for wanted, user in (("research", "bob"), ("", "ada")):
        with pytest.raises(ConflictError, match=r"It is gone\. Create it\."):
            sessions.session_for(wanted, user)
    assert sessions.session_for("", "bob") == "job-operator"
    sessions.refuse_jobs("research", None)
    assert sessions.session_for("", "ada") == "research"
