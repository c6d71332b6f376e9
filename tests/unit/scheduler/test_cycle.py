"""Order of service, gangs, queue types, and what is settled before anybody waits."""

import copy
from dataclasses import replace

import pytest

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import PodPlacement
from appliance.core.cluster.requirements import GroupKind
from appliance.core.cluster.systems import NodeGroup, System
from appliance.core.ids import WorkflowId
from appliance.scheduler.admission import Admit, Reject
from appliance.scheduler.cycle import run_cycle, would_start
from appliance.scheduler.policy import DAY, Policy
from appliance.scheduler.queue import JobQueue
from appliance.scheduler.snapshot import ClusterSnapshot, SessionQuota, WorkflowReservation
from appliance.scheduler.waiting.wait_reasons import Wait, WaitReason
from tests.support.scheduling import (
    HOUR,
    admitted,
    cluster,
    compile_,
    cycle,
    execute,
    held,
    management_node,
)

GIB_OF_90 = {"memory_bytes": 90 << 30, "num_cores": 0}


def test_two_jobs_share_two_systems_and_a_third_waits():
    jobs = [execute("a", 1, sequence=1), execute("b", 1, sequence=2), execute("c", 1, sequence=3)]
    outcome = cycle(cluster(2), jobs)
    assert admitted(outcome) == {"a": ("s0",), "b": ("s1",)}
    assert list(outcome.waits) == ["c"]


def test_a_gang_gets_all_its_systems_or_none():
    outcome = cycle(cluster(3, held("x", "s0", "s1")), [execute("a", 2)])
    assert admitted(outcome) == {}
    assert outcome.waits["a"].blocking == ("x",)
    assert "top of queue but likely blocked by running jobs" in outcome.waits["a"].reason
    assert "1 execute job(s) running using 2 system(s)" in outcome.waits["a"].reason


def test_more_systems_than_exist_are_refused_at_once_with_both_numbers():
    outcome = cycle(cluster(2), [execute("a", 3)])
    (decision,) = outcome.decisions
    assert isinstance(decision, Reject)
    assert "requested 3" in str(decision.error)
    assert "2 exists" in str(decision.error)
    assert not outcome.waits


def test_a_small_job_does_not_overtake_a_large_one_that_came_first():
    jobs = [execute("large", 2, sequence=1), execute("small", 1, sequence=2)]
    outcome = cycle(cluster(2, held("x", "s0")), jobs)
    assert admitted(outcome) == {}
    assert "1 execute job(s) queued before current job" in outcome.waits["small"].reason
    assert outcome.waits["small"].behind == ("large",)


def test_a_compile_job_never_waits_behind_execute_jobs():
    jobs = [execute("large", 2, sequence=1), compile_("c", sequence=2)]
    assert admitted(cycle(cluster(2, held("x", "s0")), jobs)) == {"c": ()}


def test_a_lower_priority_value_is_served_first():
    jobs = [execute("late", 1, sequence=1), execute("urgent", 1, sequence=2, priority=199)]
    assert list(admitted(cycle(cluster(1), jobs))) == ["urgent"]


def test_equal_priorities_are_served_in_order_of_submission():
    jobs = [execute(f"j{n}", 1, sequence=n) for n in (3, 1, 2)]
    assert list(admitted(cycle(cluster(2), jobs))) == ["j1", "j2"]


def test_a_system_that_is_not_healthy_is_not_granted():
    snapshot = ClusterSnapshot(systems=(System(name="s0", is_healthy=False), System(name="s1")))
    assert admitted(cycle(snapshot, [execute("a", 1)])) == {"a": ("s1",)}


def test_a_draining_system_gets_no_new_job_and_the_wait_says_so():
    outcome = cycle(cluster(2, draining=frozenset({"s0"})), [execute("a", 2), execute("b", 1)])
    assert admitted(outcome) == {"b": ("s1",)}
    assert outcome.waits["a"].kind is WaitReason.OUT_OF_SERVICE
    assert "s0" in outcome.waits["a"].reason


def test_compile_jobs_are_limited_by_management_memory():
    jobs = [compile_(f"c{n}", sequence=n, memory_gib=90) for n in range(3)]
    small = cluster(1, nodes=(management_node(125),))
    assert list(admitted(cycle(small, jobs))) == ["c0"]
    large = cluster(1, nodes=(management_node(503),))
    assert list(admitted(cycle(large, jobs))) == ["c0", "c1", "c2"]


def test_memory_on_two_nodes_does_not_make_room_for_one_pod():
    nodes = (management_node(60, "m0"), management_node(60, "m1"))
    (decision,) = cycle(cluster(1, nodes=nodes), [compile_("c", memory_gib=90)]).decisions
    assert isinstance(decision, Reject)
    assert "requested 1 node[role:management]{cpu:0, mem:90Gi}" in str(decision.error)
    assert "2 exists with insufficient capacity {cpu:64, mem:60Gi}" in str(decision.error)


def test_a_look_into_the_compile_cache_never_queues():
    full = cluster(1, nodes=(management_node(80),))
    jobs = [
        compile_("first", sequence=1, memory_gib=67),
        compile_("second", sequence=2, memory_gib=67),
        compile_("look", sequence=3, memory_gib=67, is_lookup=True),
    ]
    outcome = cycle(full, jobs)
    assert list(admitted(outcome)) == ["look", "first"]
    assert list(outcome.waits) == ["second"]
    (look, _) = outcome.decisions
    assert (look.grant.is_lookup, look.grant.pods) == (True, ())


def test_looks_hold_nothing_and_are_as_many_as_may_be_at_a_time():
    looking = replace(held("x", is_lookup=True), type=JobType.COMPILE)
    quota = SessionQuota(name="job-operator", max_compiles=1)
    snapshot = cluster(
        1,
        looking,
        nodes=(management_node(80),),
        sessions=(quota,),
        policy=Policy(max_lookups=2),
    )
    jobs = [compile_(f"c{n}", sequence=n, memory_gib=67, is_lookup=True) for n in range(3)]
    outcome = cycle(snapshot, jobs)
    assert [(d.job, d.grant.is_lookup) for d in outcome.decisions] == [("c0", True), ("c1", False)]
    assert "runs 1 compile job(s) of at most 1" in outcome.waits["c2"].reason


def test_one_user_does_not_start_all_the_looks_at_once():
    """Twenty compile jobs of one user once started twenty coordinators in one cycle."""
    pod = PodPlacement(node="mgmt", role="management", count=1, **GIB_OF_90)
    full = cluster(1, held("x", pods=(pod,)), nodes=(management_node(100),))
    jobs = [
        compile_(f"{user}{n}", sequence=n, memory_gib=67, is_lookup=True, user=user)
        for user in ("ada", "eve")
        for n in range(20)
    ]
    jobs = [replace(job, sequence=number) for number, job in enumerate(jobs)]
    started = list(admitted(cycle(full, jobs)))
    most = Policy().max_user_lookups
    assert sorted(started) == sorted(f"{user}{n}" for user in ("ada", "eve") for n in range(most))


def driver(name, gib, **fields):
    return replace(compile_(name, memory_gib=gib, **fields), type=JobType.DRIVER)


def test_drivers_hold_at_most_their_share_of_memory_and_block_nobody():
    nodes = (management_node(100),)
    jobs = [
        driver("d1", 30, sequence=1),
        driver("d2", 30, sequence=2),
        compile_("c", sequence=3, memory_gib=60),
    ]
    outcome = cycle(cluster(1, nodes=nodes), jobs)
    assert list(admitted(outcome)) == ["d1", "c"]
    wait = outcome.waits["d2"]
    assert (wait.kind, wait.blocking) == (WaitReason.QUOTA, ("d1",))
    assert "drivers hold 30Gi of at most 50Gi of management memory" in wait.reason


def test_a_driver_waits_for_memory_as_any_job_does():
    pod = PodPlacement(node="mgmt", role="management", count=1, **GIB_OF_90)
    busy = held("x", ends_in=HOUR, pods=(pod,))
    outcome = cycle(cluster(1, busy, nodes=(management_node(100),)), [driver("d", 20)])
    wait = outcome.waits["d"]
    assert (wait.kind, wait.blocking) == (WaitReason.RESOURCES, ("x",))
    assert wait.expected_start.at_seconds == HOUR


def test_a_driver_that_wants_more_than_drivers_may_hold_is_refused():
    (decision,) = cycle(cluster(1, nodes=(management_node(100),)), [driver("d", 60)]).decisions
    assert isinstance(decision, Reject)
    assert "drivers may hold at most 50Gi" in str(decision.error)
    assert "requested 60Gi" in str(decision.error)


def test_a_look_that_could_never_compile_is_refused_at_once():
    nodes = (management_node(60),)
    job = compile_("c", memory_gib=90, is_lookup=True)
    (decision,) = cycle(cluster(1, nodes=nodes), [job]).decisions
    assert isinstance(decision, Reject)


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        pytest.param(GroupKind.REGULAR, ("g0", "g1"), id="the smallest kind first"),
        pytest.param(GroupKind.LARGE, ("g2", "g1"), id="a larger one where a smaller would do"),
    ],
)
def test_node_groups_are_granted_whole(kind, want):
    groups = (
        NodeGroup(name="g0"),
        NodeGroup(name="g1", kind=GroupKind.XLARGE),
        NodeGroup(name="g2", kind=GroupKind.LARGE),
    )
    jobs = [execute(f"j{n}", 1, sequence=n, num_node_groups=1, group_kind=kind) for n in range(2)]
    if kind is GroupKind.REGULAR:
        groups = groups[:2]
    outcome = cycle(cluster(4, node_groups=groups), jobs)
    assert tuple(d.grant.node_groups[0] for d in outcome.decisions) == want


def test_a_workflow_gets_back_the_systems_that_it_keeps():
    reservation = WorkflowReservation(workflow=WorkflowId("w"), systems=("s0", "s1"))
    snapshot = cluster(2, reservations=(reservation,))
    jobs = [
        execute("other", 1, sequence=1),
        execute("mine", 2, sequence=2, workflow=WorkflowId("w")),
    ]
    outcome = cycle(snapshot, jobs)
    assert admitted(outcome) == {"mine": ("s0", "s1")}
    assert list(outcome.waits) == ["other"]


def test_a_compile_job_may_hold_systems_for_the_job_that_follows():
    job = compile_("c", reserve_systems=2, workflow=WorkflowId("w"))
    (decision,) = cycle(cluster(2), [job]).decisions
    assert isinstance(decision, Admit)
    assert decision.grant.systems == ()
    assert decision.grant.reserved_systems == ("s0", "s1")


def test_a_job_that_waited_too_long_goes_before_better_priorities_but_not_before_p0():
    snapshot = cluster(1, now_seconds=5 * DAY)
    old = execute("old", 1, sequence=1, priority=399, submitted_seconds=0.0)
    new = execute("new", 1, sequence=2, priority=199, submitted_seconds=5 * DAY)
    admin = execute("admin", 1, sequence=3, priority=50, submitted_seconds=5 * DAY)
    assert list(admitted(cycle(snapshot, [old, new]))) == ["old"]
    assert list(admitted(cycle(snapshot, [old, new, admin]))) == ["admin"]


def test_would_start_tells_and_leaves_no_trace():
    queue = JobQueue([execute("a", 1, sequence=1, limit_seconds=HOUR)])
    now = would_start(cluster(2), queue, execute("plan", 1, sequence=2))
    assert isinstance(now, Admit)
    later = would_start(cluster(1), queue, execute("plan", 1, sequence=2))
    assert isinstance(later, Wait)
    assert later.expected_start is not None
    assert later.expected_start.at_seconds == HOUR
    never = would_start(cluster(1), queue, execute("plan", 2, sequence=2))
    assert isinstance(never, Reject)
    assert [job.id for job in queue] == ["a"]


def test_a_question_leaves_the_queue_as_it_was_also_when_it_fails():
    queue = JobQueue(execute(f"j{number}", 1, sequence=number) for number in range(16))
    before = contents(queue)
    for name, job in {
        "anybody": execute("plan", 1, sequence=99),
        "a new user": execute("plan", 2, sequence=99, user="eve", session="lab"),
        "a workflow": execute("plan", 1, sequence=99, workflow="wflow-1"),
        "a lookup": compile_("plan", sequence=99, memory_gib=7, is_lookup=True),
    }.items():
        would_start(cluster(1, nodes=(management_node(80),)), queue, job)
        assert contents(queue) == before, name
    with pytest.raises(AttributeError):
        would_start(None, queue, execute("plan", 1, sequence=99, user="eve"))
    assert contents(queue) == before


def contents(queue):
    """Return all that a queue holds, and its columns as far as they are used."""
    others = ("columns", "history")
    values = {name: value for name, value in vars(queue).items() if name not in others}
    columns = queue.columns.first(len(queue))
    arrays = {name: getattr(columns, name).tolist() for name in columns.__slots__}
    return copy.deepcopy((values, arrays))


def test_the_same_values_give_the_same_decisions_in_whatever_order_jobs_came_in():
    jobs = [execute(f"j{n}", 1 + n % 3, sequence=n, limit_seconds=HOUR) for n in range(20)]
    first, second = JobQueue(jobs), JobQueue(reversed(jobs))
    first.remove(jobs[3].id)
    first.add(jobs[3])
    snapshot = cluster(8, held("x", "s0", ends_in=HOUR))
    assert run_cycle(snapshot, first).decisions == run_cycle(snapshot, second).decisions
