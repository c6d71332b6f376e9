"""Whom a blocked job of higher priority may stop."""

from dataclasses import replace

from appliance.scheduler.admission import Preempt
from appliance.scheduler.policy import Policy
from appliance.scheduler.snapshot import SessionQuota
from appliance.scheduler.waiting.wait_reasons import WaitReason
from tests.support.scheduling import admitted, cluster, cycle, execute, held

ALLOWED = Policy(allows_preemption=True)


def victims(outcome):
    return [d.job for d in outcome.decisions if isinstance(d, Preempt)]


def running(name, *names, priority=399, started=0.0, **fields):
    grant = held(name, *names, ends_in=1e6, priority=priority, is_preemptible=True, **fields)
    return replace(grant, started_seconds=started)


def test_nobody_is_stopped_unless_the_policy_allows_it():
    outcome = cycle(cluster(1, running("low", "s0")), [execute("high", 1, priority=199)])
    assert victims(outcome) == []


def test_the_lowest_priority_that_started_last_goes():
    snapshot = cluster(
        3,
        running("p2", "s0", priority=299),
        running("p3-old", "s1", started=1.0),
        running("p3-new", "s2", started=2.0),
        policy=ALLOWED,
        now_seconds=10.0,
    )
    outcome = cycle(snapshot, [execute("high", 1, priority=199)])
    assert victims(outcome) == ["p3-new"]
    assert outcome.waits["high"].kind is WaitReason.PREEMPTING
    assert outcome.waits["high"].expected_start.at_seconds == 10.0
    assert admitted(outcome) == {}


def test_victims_are_whole_gangs_and_no_more_than_needed():
    snapshot = cluster(
        5,
        running("one", "s0", started=9.0),
        running("four", "s1", "s2", "s3", "s4"),
        policy=ALLOWED,
    )
    assert victims(cycle(snapshot, [execute("high", 4, priority=199)])) == ["four"]


def test_nobody_is_stopped_in_vain():
    snapshot = cluster(2, running("low", "s0"), held("fixed", "s1", ends_in=60.0), policy=ALLOWED)
    assert victims(cycle(snapshot, [execute("high", 2, priority=199)])) == []


def test_equal_buckets_and_jobs_without_checkpoints_are_safe():
    snapshot = cluster(
        2,
        running("same", "s0", priority=199),
        replace(running("fragile", "s1"), is_preemptible=False),
        policy=ALLOWED,
    )
    assert victims(cycle(snapshot, [execute("high", 1, priority=101)])) == []


def test_a_job_that_is_ending_already_is_waited_for_instead():
    snapshot = cluster(
        2, replace(running("ending", "s0"), is_ending=True), running("low", "s1"), policy=ALLOWED
    )
    assert victims(cycle(snapshot, [execute("high", 1, priority=199)])) == []


def test_nobody_takes_what_is_being_freed_for_another():
    snapshot = cluster(2, running("low", "s0"), policy=ALLOWED)
    jobs = [
        execute("high", 2, sequence=1, priority=199),
        execute("quick", 1, sequence=2, priority=399, limit_seconds=1.0),
    ]
    outcome = cycle(snapshot, jobs)
    assert victims(outcome) == ["low"]
    assert admitted(outcome) == {}


def test_a_session_takes_back_its_own_from_one_that_borrows():
    sessions = (SessionQuota(name="lab", num_systems=1), SessionQuota(name="shop", num_systems=1))
    snapshot = cluster(
        2,
        running("own", "s0", priority=299, session="shop", started=1.0),
        running("borrowed", "s1", priority=299, session="shop", started=2.0),
        sessions=sessions,
        policy=ALLOWED,
        now_seconds=5.0,
    )
    job = execute("mine", 1, session="lab")
    assert victims(cycle(snapshot, [job])) == ["borrowed"]
    keeps = replace(snapshot, policy=replace(ALLOWED, reclaims_borrowed=False))
    assert victims(cycle(keeps, [job])) == []
