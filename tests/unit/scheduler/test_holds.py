"""Jobs that somebody holds back: they keep their place and do not start."""

from dataclasses import replace

from appliance.core.ids import WorkflowId
from appliance.scheduler.snapshot import WorkflowReservation
from appliance.scheduler.waiting.wait_reasons import WaitReason
from tests.support.scheduling import HOUR, admitted, cluster, compile_, cycle, execute, held


def test_a_held_job_does_not_start_and_others_pass_it():
    jobs = [execute("mine", 1, sequence=1, held_by="ada"), execute("next", 1, sequence=2)]
    outcome = cycle(cluster(2), jobs)
    assert list(admitted(outcome)) == ["next"]
    wait = outcome.waits["mine"]
    assert (wait.kind, wait.position, wait.expected_start) == (WaitReason.HELD, 0, None)
    assert "held by ada" in wait.reason


def test_a_held_job_is_promised_nothing_and_counts_for_nobody():
    snapshot = cluster(2, held("x", "s0", "s1", ends_in=HOUR))
    jobs = [
        execute("mine", 2, sequence=1, held_by="ada", limit_seconds=HOUR),
        execute("next", 2, sequence=2, limit_seconds=HOUR),
    ]
    outcome = cycle(snapshot, jobs)
    assert outcome.waits.in_order() == ["mine", "next"]
    after = outcome.waits["next"]
    assert (after.position, after.expected_start.at_seconds) == (0, HOUR)
    assert after.expected_start.is_promised


def test_a_held_compile_does_not_even_look_into_the_cache():
    jobs = [compile_("c", is_lookup=True, held_by="ada")]
    assert not admitted(cycle(cluster(1), jobs))
    assert list(admitted(cycle(cluster(1), [compile_("c", is_lookup=True)]))) == ["c"]


def test_systems_that_a_workflow_keeps_do_not_start_its_held_job():
    kept = WorkflowReservation(workflow=WorkflowId("w"), systems=("s0", "s1"))
    snapshot = cluster(2, reservations=(kept,))
    mine = execute("mine", 2, workflow=WorkflowId("w"))
    assert admitted(cycle(snapshot, [replace(mine, held_by="ada")])) == {}
    assert list(admitted(cycle(snapshot, [mine]))) == ["mine"]
