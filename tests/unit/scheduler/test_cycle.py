"""First come, first served; gangs whole or not at all."""

from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ids import JobId
from appliance.core.jobs import JobType
from appliance.core.systems import System
from appliance.scheduler.cycle import Admit, Reject, Wait, run_cycle
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.snapshot import ClusterSnapshot, Grant


def cluster(num_systems: int, *grants: Grant) -> ClusterSnapshot:
    systems = tuple(System(name=f"s{index}") for index in range(num_systems))
    return ClusterSnapshot(systems=systems, grants=grants)


def execute(name: str, num_systems: int, *, sequence: int = 0, priority: int = 299) -> PendingJob:
    return PendingJob(
        id=JobId(name),
        type=JobType.EXECUTE,
        sequence=sequence,
        priority=priority,
        num_systems=num_systems,
    )


def compile_(name: str, *, sequence: int = 0) -> PendingJob:
    return PendingJob(
        id=JobId(name), type=JobType.COMPILE, sequence=sequence, priority=299, num_systems=0
    )


def held(name: str, *systems: str) -> Grant:
    return Grant(job=JobId(name), type=JobType.EXECUTE, systems=systems)


def test_two_jobs_share_two_systems_and_a_third_waits():
    jobs = [execute("a", 1, sequence=1), execute("b", 1, sequence=2), execute("c", 1, sequence=3)]
    first, second, third = run_cycle(cluster(2), jobs)
    assert isinstance(first, Admit)
    assert isinstance(second, Admit)
    assert {*first.grant.systems, *second.grant.systems} == {"s0", "s1"}
    assert isinstance(third, Wait)


def test_a_gang_gets_all_its_systems_or_none():
    (decision,) = run_cycle(cluster(3, held("x", "s0", "s1")), [execute("a", 2)])
    assert isinstance(decision, Wait)
    assert decision.blocking == ("x",)
    assert "top of queue but likely blocked by running jobs" in decision.reason
    assert "1 execute job(s) running using 2 system(s)" in decision.reason


def test_more_systems_than_exist_are_refused_at_once_with_both_numbers():
    (decision,) = run_cycle(cluster(2), [execute("a", 3)])
    assert isinstance(decision, Reject)
    assert "requested 3" in str(decision.error)
    assert "2 exists" in str(decision.error)


def test_a_small_job_does_not_overtake_a_large_one_that_came_first():
    jobs = [execute("large", 2, sequence=1), execute("small", 1, sequence=2)]
    large, small = run_cycle(cluster(2, held("x", "s0")), jobs)
    assert isinstance(large, Wait)
    assert isinstance(small, Wait)
    assert "1 execute job(s) queued before current job" in small.reason


def test_a_compile_job_never_waits_behind_execute_jobs():
    jobs = [execute("large", 2, sequence=1), compile_("c", sequence=2)]
    _, decision = run_cycle(cluster(2, held("x", "s0")), jobs)
    assert isinstance(decision, Admit)
    assert decision.grant.systems == ()


def test_a_lower_priority_value_is_served_first():
    jobs = [execute("late", 1, sequence=1), execute("urgent", 1, sequence=2, priority=199)]
    assert [decision.job for decision in run_cycle(cluster(1), jobs)] == ["urgent", "late"]


def test_a_system_that_is_not_healthy_is_not_granted():
    snapshot = ClusterSnapshot(systems=(System(name="s0", is_healthy=False), System(name="s1")))
    (decision,) = run_cycle(snapshot, [execute("a", 1)])
    assert isinstance(decision, Admit)
    assert decision.grant.systems == ("s1",)


@given(st.integers(1, 6), st.lists(st.integers(0, 8), max_size=20))
def test_no_system_is_granted_twice_and_every_gang_is_whole(num_systems, wishes):
    jobs = [
        compile_(f"j{n}", sequence=n) if wish == 0 else execute(f"j{n}", wish, sequence=n)
        for n, wish in enumerate(wishes)
    ]
    decisions = run_cycle(cluster(num_systems), jobs)
    granted = [name for d in decisions if isinstance(d, Admit) for name in d.grant.systems]
    assert len(granted) == len(set(granted))
    wanted = {job.id: job.num_systems for job in jobs}
    for decision in decisions:
        if isinstance(decision, Admit):
            assert len(decision.grant.systems) == wanted[decision.job]
        assert isinstance(decision, Reject) == (wanted[decision.job] > num_systems)
    assert sorted(d.job for d in decisions) == sorted(wanted)
