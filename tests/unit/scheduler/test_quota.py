"""Sessions: their own systems, what they borrow, how many jobs, and the pause."""

import pytest

from appliance.core.cluster.systems import NodeGroup
from appliance.core.ids import WorkflowId
from appliance.scheduler.admission import Reject
from appliance.scheduler.fair_share import Account
from appliance.scheduler.snapshot import SessionQuota, WorkflowReservation
from appliance.scheduler.waiting.wait_reasons import WaitReason
from tests.support.scheduling import admitted, cluster, compile_, cycle, execute, held


def test_a_session_borrows_what_nobody_else_uses():
    quota = SessionQuota(name="lab", num_systems=1)
    snapshot = cluster(4, held("x", "s0", session="lab"), sessions=(quota,))
    assert list(admitted(cycle(snapshot, [execute("a", 3, session="lab")]))) == ["a"]


def test_a_session_at_its_limit_waits_and_holds_nobody_back():
    quota = SessionQuota(name="lab", num_systems=1, borrow_limit=1)
    snapshot = cluster(4, held("x", "s0", "s1", session="lab"), sessions=(quota,))
    jobs = [execute("mine", 1, sequence=1, session="lab"), execute("other", 2, sequence=2)]
    outcome = cycle(snapshot, jobs)
    assert list(admitted(outcome)) == ["other"]
    wait = outcome.waits["mine"]
    assert wait.kind is WaitReason.QUOTA
    assert wait.blocking == ("x",)
    assert "session lab uses 2 system(s) of at most 2" in wait.reason


def test_the_limit_counts_what_the_same_cycle_admits():
    quota = SessionQuota(name="lab", num_systems=2, borrow_limit=0)
    jobs = [execute(f"j{n}", 1, sequence=n, session="lab") for n in range(4)]
    assert list(admitted(cycle(cluster(4, sessions=(quota,)), jobs))) == ["j0", "j1"]


def test_jobs_within_their_quota_go_before_jobs_that_would_borrow():
    sessions = (SessionQuota(name="lab", num_systems=1), SessionQuota(name="shop", num_systems=1))
    snapshot = cluster(2, held("x", "s0", session="lab"), sessions=sessions)
    jobs = [
        execute("borrows", 1, sequence=1, session="lab"),
        execute("own", 1, sequence=2, session="shop"),
    ]
    assert list(admitted(cycle(snapshot, jobs))) == ["own"]


def test_more_than_the_session_may_ever_have_is_refused_with_both_numbers():
    quota = SessionQuota(name="lab", num_systems=1, borrow_limit=1)
    (decision,) = cycle(cluster(4, sessions=(quota,)), [execute("a", 3, session="lab")]).decisions
    assert isinstance(decision, Reject)
    assert "at most 2 system(s)" in str(decision.error)
    assert "requested 3" in str(decision.error)


@pytest.mark.parametrize(
    ("quota", "want"),
    [
        pytest.param({"max_executes": 1}, ["e0", "c0", "c1"], id="one execute job at a time"),
        pytest.param({"max_compiles": 1}, ["e0", "e1", "c0"], id="one compile job at a time"),
        pytest.param({"is_paused": True}, [], id="a paused session starts nothing"),
    ],
)
def test_a_session_limits_its_jobs(quota, want):
    session = SessionQuota(name="lab", **quota)
    jobs = [
        execute("e0", 1, sequence=1, session="lab"),
        execute("e1", 1, sequence=2, session="lab"),
        compile_("c0", sequence=3, session="lab"),
        compile_("c1", sequence=4, session="lab"),
    ]
    assert sorted(admitted(cycle(cluster(4, sessions=(session,)), jobs))) == sorted(want)


def test_a_paused_session_is_the_reason_given():
    snapshot = cluster(1, sessions=(SessionQuota(name="lab", is_paused=True),))
    wait = cycle(snapshot, [execute("a", 1, session="lab")]).waits["a"]
    assert wait.kind is WaitReason.PAUSED
    assert wait.expected_start is None


def kept_for(session):
    return WorkflowReservation(
        workflow=WorkflowId("w"),
        systems=("s0", "s1"),
        node_groups=("g0",),
        account=Account(session, "ada"),
    )


@pytest.mark.parametrize(
    ("quota", "wants_group"),
    [
        pytest.param({"num_systems": 2, "borrow_limit": 0}, False, id="systems"),
        pytest.param({"max_node_groups": 1}, True, id="node groups"),
    ],
)
def test_what_a_workflow_keeps_counts_against_its_sessions_quota(quota, wants_group):
    sessions = (SessionQuota(name="lab", **quota),)
    groups = (NodeGroup(name="g0"), NodeGroup(name="g1"))
    job = execute("a", 1, session="lab", num_node_groups=int(wants_group))
    free = {"sessions": sessions, "node_groups": groups}
    assert list(admitted(cycle(cluster(4, **free), [job]))) == ["a"]
    others = cluster(4, reservations=(kept_for("shop"),), **free)
    assert list(admitted(cycle(others, [job]))) == ["a"]
    wait = cycle(cluster(4, reservations=(kept_for("lab"),), **free), [job]).waits["a"]
    assert wait.kind is WaitReason.QUOTA


def test_what_a_workflow_keeps_and_uses_counts_once():
    quota = SessionQuota(name="lab", num_systems=3, borrow_limit=0, max_node_groups=2)
    snapshot = cluster(
        4,
        held("x", "s0", session="lab"),
        sessions=(quota,),
        node_groups=(NodeGroup(name="g0"), NodeGroup(name="g1")),
        reservations=(kept_for("lab"),),
    )
    job = execute("a", 1, session="lab", num_node_groups=1)
    assert list(admitted(cycle(snapshot, [job]))) == ["a"]
