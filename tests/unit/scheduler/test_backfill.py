"""Who may pass a blocked job, and what that job is promised."""

from dataclasses import replace

import pytest

from appliance.core.cluster.jobs import JobType
from appliance.scheduler.cycle import run_cycle
from appliance.scheduler.policy import EASY, FIRST_COME, Policy
from appliance.scheduler.queue import JobQueue
from appliance.scheduler.run_time import RunHistory
from appliance.scheduler.snapshot import Maintenance
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

BUSY = held("x", "s0", "s1", ends_in=HOUR)


def test_a_job_that_ends_before_the_promise_passes():
    jobs = [
        execute("large", 4, sequence=1),
        execute("long", 1, sequence=2, limit_seconds=2 * HOUR),
        execute("short", 1, sequence=3, limit_seconds=HOUR),
    ]
    outcome = cycle(cluster(4, BUSY), jobs)
    assert list(admitted(outcome)) == ["short"]
    assert outcome.waits["large"].expected_start.at_seconds == HOUR
    assert outcome.waits["large"].expected_start.is_promised
    assert outcome.waits["long"].run_seconds == 2 * HOUR


def test_a_long_job_passes_where_the_promise_leaves_room():
    jobs = [execute("large", 3, sequence=1), execute("long", 1, sequence=2)]
    assert list(admitted(cycle(cluster(4, BUSY), jobs))) == ["long"]


def test_strict_order_lets_nobody_pass():
    jobs = [execute("large", 4, sequence=1), execute("short", 1, sequence=2, limit_seconds=1.0)]
    outcome = cycle(cluster(4, BUSY, policy=FIRST_COME), jobs)
    assert admitted(outcome) == {}
    assert "strict order" in outcome.waits["short"].reason


def test_the_shortest_passes_first_unless_the_policy_says_otherwise():
    jobs = [
        execute("large", 4, sequence=1),
        execute("half", 2, sequence=2, limit_seconds=HOUR / 2),
        execute("quarter", 2, sequence=3, limit_seconds=HOUR / 4),
    ]
    assert list(admitted(cycle(cluster(4, BUSY), jobs))) == ["quarter"]
    assert list(admitted(cycle(cluster(4, BUSY, policy=EASY), jobs))) == ["half"]


def test_a_job_that_nobody_knows_the_length_of_passes_nobody_on_a_guess():
    jobs = [execute("large", 2, sequence=1), execute("unknown", 1, sequence=2)]
    snapshot = cluster(2, held("x", "s0"), policy=Policy(default_execute_seconds=60.0))
    assert admitted(cycle(snapshot, jobs)) == {}


def test_what_was_learned_lets_a_job_pass():
    history = RunHistory()
    history.observe("ada", "gpt", JobType.EXECUTE, 600.0)
    jobs = [
        execute("large", 4, sequence=1),
        execute("like", 1, sequence=2, user="ada", program="gpt"),
    ]
    outcome = run_cycle(cluster(4, BUSY), JobQueue(jobs, history))
    assert list(admitted(outcome)) == ["like"]


def test_a_blocked_compile_and_a_blocked_execute_job_are_both_promised_a_start():
    jobs = [
        compile_("c0", sequence=1, memory_gib=67, limit_seconds=HOUR / 2),
        compile_("c1", sequence=2, memory_gib=67),
        execute("large", 4, sequence=3),
        execute("small", 1, sequence=4),
    ]
    outcome = cycle(cluster(4, BUSY, nodes=(management_node(100),)), jobs)
    assert list(admitted(outcome)) == ["c0"]
    assert outcome.waits["c1"].expected_start.at_seconds == HOUR / 2
    assert outcome.waits["large"].expected_start.at_seconds == HOUR
    assert outcome.waits["c1"].expected_start.is_promised
    assert outcome.waits["large"].expected_start.is_promised


def test_a_job_is_not_placed_where_maintenance_would_meet_it():
    window = Maintenance(system="s0", start_seconds=HOUR, end_seconds=2 * HOUR)
    snapshot = cluster(2, maintenance=(window,))
    long = execute("long", 1, sequence=1, limit_seconds=3 * HOUR)
    short = execute("short", 1, sequence=2, limit_seconds=HOUR)
    assert admitted(cycle(snapshot, [long, short])) == {"long": ("s1",), "short": ("s0",)}


def test_a_gang_that_needs_a_system_in_maintenance_is_promised_its_end():
    window = Maintenance(system="s0", start_seconds=0.0, end_seconds=2 * HOUR)
    snapshot = cluster(2, maintenance=(window,), now_seconds=10.0)
    outcome = cycle(snapshot, [execute("both", 2, limit_seconds=HOUR)])
    assert outcome.waits["both"].expected_start.at_seconds == 2 * HOUR


def test_a_job_over_its_guess_is_given_more_time_not_none():
    overdue = replace(held("x", "s0", ends_in=HOUR), has_time_limit=False)
    outcome = cycle(cluster(1, overdue, now_seconds=2 * HOUR), [execute("a", 1)])
    assert outcome.waits["a"].expected_start.at_seconds > 2 * HOUR


def test_a_large_gang_starts_within_its_bound_however_many_small_jobs_come():
    """Small jobs of a light user keep coming; the heavy user's gang of all systems must start."""
    now, sequence = 0.0, 1
    running = {}
    gang = execute("gang", 4, sequence=0, user="heavy", limit_seconds=HOUR)
    queue = JobQueue([gang])
    while gang.id in queue:
        for _ in range(3):
            queue.add(
                execute(
                    f"j{sequence}",
                    1 + sequence % 2,
                    sequence=sequence,
                    priority=199,
                    submitted_seconds=now,
                    limit_seconds=HOUR,
                )
            )
            sequence += 1
        running = {
            job: grant for job, grant in running.items() if grant.started_seconds + HOUR > now
        }
        outcome = run_cycle(cluster(4, *running.values(), now_seconds=now), queue)
        for decision in outcome.decisions:
            running[decision.job] = decision.grant
            queue.remove(decision.job)
        now += HOUR / 2
    assert now <= Policy().max_wait_seconds[2] + 3 * HOUR


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_as_many_jobs_as_the_policy_says_are_tried_behind_a_blocked_one(depth):
    short = [execute(f"s{n}", 1, sequence=2 + n, limit_seconds=HOUR / (10 + n)) for n in range(3)]
    snapshot = cluster(5, BUSY, policy=Policy(backfill_depth=depth))
    outcome = cycle(snapshot, [execute("large", 5, sequence=1), *short])
    assert len(admitted(outcome)) == min(depth, 3)
