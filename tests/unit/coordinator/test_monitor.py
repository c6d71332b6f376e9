"""The error monitor is told late what another call has carried, and never without need."""

import threading

from appliance.coordinator.monitor import Monitor, told_at_seconds
from appliance.core.clock import SystemClock


def test_a_failure_is_told_after_a_little_patience() -> None:
    assert told_at_seconds(100.0, None) == 102.0


def test_a_failure_that_another_call_carried_is_told_much_later() -> None:
    assert told_at_seconds(100.0, 101.0) == 109.0


def test_a_poll_ends_with_nothing_while_the_job_is_well() -> None:
    assert not Monitor(SystemClock(), lambda seconds: False).poll(0.01)


def test_a_client_that_leaves_the_run_is_not_kept_waiting() -> None:
    is_polled = threading.Event()
    monitor = Monitor(SystemClock(), lambda seconds: is_polled.set() or False)
    answers: list[bool] = []
    poll = threading.Thread(target=lambda: answers.append(monitor.poll(20.0)))
    poll.start()
    assert is_polled.wait(10)
    monitor.release()
    poll.join(10)
    assert answers == [False]


def test_no_poll_waits_once_the_job_is_closed() -> None:
    monitor = Monitor(SystemClock(), lambda seconds: True)
    monitor.close()
    assert not monitor.poll(20.0)
