"""Errands of one job follow each other; nobody waits for another job's."""

import logging
import threading

from appliance.core.ids import JobId
from appliance.management.reconciler.job_executors import Lanes

A, B = JobId("wsjob-a"), JobId("wsjob-b")
SECONDS = 20.0


class Gate:
    """An errand that waits until it is let through."""

    def __init__(self):
        self.has_begun, self.is_open = threading.Event(), threading.Event()

    def __call__(self):
        self.has_begun.set()
        assert self.is_open.wait(SECONDS)


def test_errands_of_a_job_are_done_in_order_while_others_go_on():
    lanes, gate, done, last = Lanes(), Gate(), [], threading.Event()
    lanes.send(A, gate)
    lanes.send(A, lambda: done.append("a2"))
    lanes.send(A, lambda: (done.append("a3"), last.set()))
    other = threading.Event()
    lanes.send(B, lambda: (done.append("b"), other.set()))
    assert other.wait(SECONDS)
    assert done == ["b"]
    gate.is_open.set()
    assert last.wait(SECONDS)
    assert done == ["b", "a2", "a3"]
    lanes.close(timeout_seconds=SECONDS)


def test_an_errand_that_fails_leaves_the_next_of_its_job_alone(caplog):
    lanes, done = Lanes(), threading.Event()
    with caplog.at_level(logging.ERROR):
        lanes.send(A, lambda: 1 // 0)
        lanes.send(A, done.set)
        assert done.wait(SECONDS)
    (record,) = caplog.records
    assert (record.getMessage(), record.job) == ("Errand of a job could not be done", A)
    lanes.close(timeout_seconds=SECONDS)


def test_no_more_lanes_move_at_once_than_there_are_threads():
    lanes, gate, done = Lanes(num_threads=1), Gate(), threading.Event()
    lanes.send(A, gate)
    lanes.send(B, done.set)
    assert gate.has_begun.wait(SECONDS)
    assert not done.is_set()
    gate.is_open.set()
    assert done.wait(SECONDS)
    lanes.close(timeout_seconds=SECONDS)


def test_closing_drops_what_has_not_begun_and_waits_for_what_has():
    lanes, gate, done = Lanes(num_threads=1), Gate(), []
    lanes.send(A, gate)
    lanes.send(A, lambda: done.append("a"))
    lanes.send(B, lambda: done.append("b"))
    assert gate.has_begun.wait(SECONDS)
    lanes.close(timeout_seconds=0.0)
    lanes.send(B, lambda: done.append("b2"))
    gate.is_open.set()
    lanes.close(timeout_seconds=SECONDS)
    assert done == []
