"""What is to be looked at later comes once, at the earliest of its times."""

from appliance.cluster.kubernetes.workqueue import WorkQueue
from tests.support.clock import FakeClock


def ready(queue):
    """Take all that is ready, between two marks: taking the first makes ready what is due."""
    queue.add("first")
    assert queue.take() == "first"
    queue.add("last")
    return list(iter(queue.take, "last"))


def test_a_name_waits_once_until_the_earliest_of_its_times():
    clock = FakeClock()
    queue = WorkQueue(clock)
    for seconds in (60.0, 5.0, 60.0, 30.0):
        queue.add_after("a", seconds)
    queue.add_after("b", 20.0)
    assert ready(queue) == []
    clock.advance(5.0)
    assert ready(queue) == ["a"]
    clock.advance(100.0)
    assert ready(queue) == ["b"]


def test_a_look_that_asks_for_another_goes_on_for_ever_but_does_not_multiply():
    clock = FakeClock()
    queue = WorkQueue(clock)
    for _ in range(100):  # each change of a job leads to a look, and that asks for one later
        queue.add_after("all", 60.0)
    for _ in range(3):
        clock.advance(60.0)
        assert ready(queue) == ["all"]
        queue.add_after("all", 60.0)
