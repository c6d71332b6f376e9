"""What launchers tell of what has ended."""

import queue

import pytest

from appliance.cluster.launcher import Exits, JobStopped

FIRST, SECOND, THIRD = (JobStopped(job=f"wsjob-{number}") for number in range(3))


def test_what_has_ended_waits_in_order_until_somebody_gets_it():
    exits = Exits()
    exits.put(FIRST)
    exits.put(SECOND)
    assert [exits.get(timeout=1), exits.get(timeout=1)] == [FIRST, SECOND]
    with pytest.raises(queue.Empty):
        exits.get_nowait()


def test_who_takes_everything_gets_what_waited_before_what_comes():
    exits, taken = Exits(), []
    exits.put(FIRST)
    exits.put(SECOND)
    exits.hand_to(taken.append)
    exits.put(THIRD)
    assert taken == [FIRST, SECOND, THIRD]
    assert exits.empty()
