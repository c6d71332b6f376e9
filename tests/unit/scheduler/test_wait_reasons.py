"""What a user is told about a job that waits."""

from appliance.scheduler.cycle import run_cycle
from appliance.scheduler.policy import Policy
from appliance.scheduler.queue import JobQueue
from appliance.scheduler.waiting.wait_reasons import WaitReason
from tests.support.scheduling import HOUR, admitted, cluster, compile_, cycle, execute, held

BUSY = cluster(
    2, held("early", "s0", ends_in=HOUR), held("late", "s1", ends_in=2 * HOUR), now_seconds=0.0
)


def test_the_first_job_is_told_whom_it_waits_for_and_until_when():
    wait = cycle(BUSY, [execute("a", 1)]).waits["a"]
    assert wait.kind is WaitReason.RESOURCES
    assert wait.blocking == ("early", "late")
    assert wait.expected_start.at_seconds == HOUR
    assert wait.expected_start.basis == "end of early, by time limit"
    assert "expected to start in 1 h (end of early, by time limit)" in wait.reason


def test_later_jobs_are_planned_behind_the_first():
    jobs = [execute(f"j{n}", 2, sequence=n, limit_seconds=HOUR) for n in range(3)]
    waits = cycle(BUSY, jobs).waits
    starts = [waits[job.id].expected_start for job in jobs]
    assert [start.at_seconds for start in starts] == [2 * HOUR, 3 * HOUR, 4 * HOUR]
    assert [start.is_promised for start in starts] == [True, False, False]
    assert [waits[job.id].position for job in jobs] == [0, 1, 2]
    assert starts[1].basis == "end of j0, which waits too"


def test_a_job_far_behind_is_told_of_the_work_ahead():
    jobs = [execute(f"j{n}", 2, sequence=n, limit_seconds=HOUR) for n in range(10)]
    snapshot = cluster(2, *BUSY.grants, policy=Policy(plan_depth=2))
    start = cycle(snapshot, jobs).waits["j9"].expected_start
    assert "work of all jobs ahead" in start.basis
    assert start.at_seconds == (3 * HOUR + 9 * 2 * HOUR) / 2


def test_what_is_free_but_promised_is_called_reserved():
    jobs = [execute("large", 2, sequence=1), execute("small", 1, sequence=2)]
    wait = cycle(cluster(2, held("x", "s0", ends_in=HOUR)), jobs).waits["small"]
    assert wait.kind is WaitReason.RESERVED
    assert "what is free now is reserved for large" in wait.reason


def test_waits_stay_as_they_were_when_the_queue_goes_on():
    queue = JobQueue([execute(f"j{n}", 2, sequence=n) for n in range(4)])
    waits = run_cycle(BUSY, queue).waits
    for name in ("j0", "j1", "j2"):
        queue.remove(name)
    queue.add(execute("new", 1, sequence=9, priority=0))
    assert sorted(waits) == ["j0", "j1", "j2", "j3"]
    assert waits["j3"].position == 3
    assert "new" not in waits
    assert waits.get("new") is None


def test_while_admissions_are_stopped_nothing_starts_and_everybody_is_told_why():
    snapshot = cluster(4, stopped="the disk of /data has 1 MiB free, and 512 MiB must be")
    jobs = [
        execute("e", 1, sequence=1),
        compile_("c", sequence=2),
        compile_("l", sequence=3, is_lookup=True),
        execute("h", 1, sequence=4, held_by="ada"),
        execute("never", 9, sequence=5),
    ]
    outcome = cycle(snapshot, jobs)
    assert admitted(outcome) == {}
    assert [decision.job for decision in outcome.decisions] == ["never"]  # that need not wait
    for job in ("e", "c", "l"):
        wait = outcome.waits[job]
        assert (wait.kind, wait.expected_start) == (WaitReason.STOPPED, None)
        assert "nothing is started now: the disk of /data has 1 MiB free" in wait.reason
    assert outcome.waits["h"].kind is WaitReason.HELD
