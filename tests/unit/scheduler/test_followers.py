"""Jobs that start only after the end of others, or in their turn of an array."""

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.dependencies import Dependency, Outcome
from appliance.management.reconciler.scheduling.array_places import changed_places
from appliance.management.reconciler.scheduling.predecessors import Following, follow
from appliance.scheduler.waiting.wait_reasons import WaitReason
from tests.support.scheduling import admitted, cluster, cycle, execute

PHASES = {
    "good": Phase.SUCCEEDED,
    "bad": Phase.FAILED,
    "cut": Phase.CANCELLED,
    "live": Phase.RUNNING,
    "queued": Phase.QUEUED,
    "gone": None,
}


def after(*jobs, outcome=Outcome.SUCCESS):
    return Dependency(jobs=jobs, outcome=outcome)


@pytest.mark.parametrize(
    ("outcome", "jobs", "why"),
    [
        (Outcome.SUCCESS, ("first",), "starts when first has succeeded"),
        (Outcome.ANY, ("first", "other"), "starts when first, other has ended"),
        (Outcome.FAILURE, ("first",), "starts when first has failed"),
        (Outcome.FAILURE, ("first", "other"), "starts when one of first, other has failed"),
    ],
)
def test_a_job_that_follows_others_waits_and_names_them(outcome, jobs, why):
    wanted = (after(*jobs, outcome=outcome),)
    waiting = [execute("second", 1, sequence=1, after=wanted), execute("next", 1, sequence=2)]
    found = cycle(cluster(2), waiting)
    assert list(admitted(found)) == ["next"]
    wait = found.waits["second"]
    assert (wait.kind, wait.blocking) == (WaitReason.DEPENDENCY, jobs)
    assert why in wait.reason
    assert wait.expected_start is None


@pytest.mark.parametrize(
    ("outcome", "jobs", "open_jobs"),
    [
        (Outcome.SUCCESS, ("good",), ()),
        (Outcome.SUCCESS, ("good", "live", "queued"), ("live", "queued")),
        (Outcome.ANY, ("good", "bad", "cut", "gone"), ()),
        (Outcome.ANY, ("bad", "live"), ("live",)),
        (Outcome.FAILURE, ("bad",), ()),
        (Outcome.FAILURE, ("cut",), ()),
        (Outcome.FAILURE, ("good", "bad"), ()),
        (Outcome.FAILURE, ("good", "live"), ("good", "live")),
        (Outcome.FAILURE, ("bad", "live"), ("bad", "live")),
    ],
)
def test_a_job_waits_for_those_that_have_yet_to_end(outcome, jobs, open_jobs):
    wanted = after(*jobs, outcome=outcome)
    left = (after(*open_jobs, outcome=outcome),) if open_jobs else ()
    assert follow((wanted,), PHASES) == Following(open=left)


@pytest.mark.parametrize(
    ("outcome", "jobs", "problem"),
    [
        (Outcome.SUCCESS, ("live", "bad"), "after bad had succeeded, which is FAILED"),
        (Outcome.SUCCESS, ("cut",), "after cut had succeeded, which is CANCELLED"),
        (Outcome.SUCCESS, ("gone",), "after gone had succeeded, which is not known any more"),
        (Outcome.FAILURE, ("good",), "after good had failed, which is SUCCEEDED"),
        (Outcome.FAILURE, ("gone",), "after gone had failed, which is not known any more"),
    ],
)
def test_a_job_can_never_start_once_others_have_ended_otherwise(outcome, jobs, problem):
    found = follow((after("live"), after(*jobs, outcome=outcome)), PHASES)
    assert found.problem == f"it was to start {problem}"


def member(name, sequence, *, limit=2, **changes):
    return execute(name, 1, sequence=sequence, array="array-a", array_limit=limit, **changes)


def test_the_first_submitted_of_a_limited_array_have_the_places_that_are_left():
    members = [member("d", 4), member("b", 2), member("c", 3, held_by="ada"), member("a", 1)]
    others = [execute("x", 1, array="array-x", array_limit=1, sequence=9)]
    assert changed_places([*members, *others], {}) == {"d": True}
    assert changed_places(members, {"array-a": 1}) == {"b": True, "d": True}
    assert changed_places(members, {"array-a": 2}) == dict.fromkeys("abd", True)
    waiting = [member("d", 4, awaits_place=True), member("e", 5, awaits_place=True)]
    assert changed_places(waiting, {"array-a": 1}) == {"d": False}
    assert changed_places(waiting, {"array-a": 3}) == {}


def test_a_job_that_waits_for_its_place_says_so_and_starts_in_nobody_s():
    found = cycle(cluster(4), [member("a", 1), member("b", 2, awaits_place=True)])
    assert list(admitted(found)) == ["a"]
    wait = found.waits["b"]
    assert (wait.kind, wait.expected_start) == (WaitReason.ARRAY_LIMIT, None)
    assert "of array-a at most 2 run(s) go on at once" in wait.reason
