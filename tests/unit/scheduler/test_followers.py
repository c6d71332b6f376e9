"""Jobs that start only after others have succeeded."""

from appliance.core.cluster.jobs import Phase
from appliance.management.reconciler.scheduling.predecessors import Following, follow
from appliance.scheduler.waiting.wait_reasons import WaitReason
from tests.support.scheduling import admitted, cluster, cycle, execute


def test_a_job_that_follows_others_waits_and_names_them():
    jobs = [execute("second", 1, sequence=1, after=("first",)), execute("other", 1, sequence=2)]
    outcome = cycle(cluster(2), jobs)
    assert list(admitted(outcome)) == ["other"]
    wait = outcome.waits["second"]
    assert (wait.kind, wait.blocking) == (WaitReason.DEPENDENCY, ("first",))
    assert "starts when first has succeeded" in wait.reason
    assert wait.expected_start is None


def test_a_job_is_released_when_all_have_succeeded_and_ended_when_one_has_not():
    phases = {"a": Phase.SUCCEEDED, "b": Phase.RUNNING}
    assert follow(("a", "b"), phases) == Following(open=("b",))
    assert follow(("a",), phases) == Following()
    failed = follow(("b", "c"), {**phases, "c": Phase.FAILED})
    assert failed.problem == "it was to start after c had succeeded, which is FAILED"
    assert "c had succeeded, which is not known any more" in follow(("c",), {"c": None}).problem
