"""The error monitor is told late what another call has carried, and never without need."""

import threading
from collections.abc import Callable

from appliance.coordinator.client.monitor import Monitor, MonitorWord, told_at_seconds
from appliance.core.clock import SystemClock

SECONDS = 120.0
"""Of a poll; what comes of it comes at once."""


def word_of_a_waiting_poll(end: Callable[[Monitor], None]) -> MonitorWord:
    """Return what a poll of a job that is well ends with, when `end` is called meanwhile."""
    is_polled = threading.Event()

    def note_and_be_well(seconds: float) -> bool:
        is_polled.set()
        return False

    monitor = Monitor(SystemClock(), note_and_be_well)
    answers: list[MonitorWord] = []
    poll = threading.Thread(target=lambda: answers.append(monitor.poll(SECONDS)))
    poll.start()
    assert is_polled.wait(SECONDS)
    end(monitor)
    poll.join(SECONDS)
    (word,) = answers
    return word


def test_a_failure_is_told_after_a_little_patience() -> None:
    assert told_at_seconds(100.0, None) == 102.0


def test_a_failure_that_another_call_carried_is_told_much_later() -> None:
    assert told_at_seconds(100.0, 101.0) == 109.0


def test_a_poll_ends_with_nothing_while_the_job_is_well() -> None:
    monitor = Monitor(SystemClock(), lambda seconds: False)
    assert monitor.poll(0.01) is MonitorWord.CLEAN


def test_a_client_that_leaves_the_run_is_not_kept_waiting() -> None:
    assert word_of_a_waiting_poll(Monitor.release) is MonitorWord.CLEAN


def test_polls_rest_when_the_job_is_ended_from_outside() -> None:
    assert word_of_a_waiting_poll(Monitor.close) is MonitorWord.OFF_SHIFT


def test_polls_that_come_late_to_a_job_ended_from_outside_rest_too() -> None:
    monitor = Monitor(SystemClock(), lambda seconds: True)
    monitor.close()
    assert monitor.poll(SECONDS) is MonitorWord.OFF_SHIFT


def test_a_client_that_is_done_need_not_rest() -> None:
    monitor = Monitor(SystemClock(), lambda seconds: True)
    monitor.leave()
    monitor.close()
    assert monitor.poll(SECONDS) is MonitorWord.CLEAN


def test_a_client_that_knows_of_a_failure_need_not_rest() -> None:
    monitor = Monitor(SystemClock(), lambda seconds: True)
    monitor.note_carried()
    monitor.close()
    assert monitor.poll(SECONDS) is MonitorWord.CLEAN


def test_a_poll_whose_caller_has_gone_leaves_the_failure_to_the_next() -> None:
    monitor = Monitor(SystemClock(), lambda seconds: True)
    assert monitor.poll(20.0, lambda: False) is MonitorWord.CLEAN
    assert monitor.poll(SECONDS) is MonitorWord.FAILURE
    assert monitor.poll(0.01) is MonitorWord.CLEAN
