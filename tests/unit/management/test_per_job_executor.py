"""Effects of one job follow each other; nobody waits for another job's."""

import logging
import threading

from appliance.core.ids import JobId
from appliance.management.pods.per_job_executor import PerJobExecutor

A, B = JobId("wsjob-a"), JobId("wsjob-b")
SECONDS = 120.0


class Gate:
    """An effect that waits until it is let through."""

    def __init__(self):
        self.has_begun, self.is_open = threading.Event(), threading.Event()

    def __call__(self):
        self.has_begun.set()
        assert self.is_open.wait(SECONDS)


def test_effects_of_a_job_are_done_in_order_while_others_go_on():
    executor, gate, done, last = PerJobExecutor(), Gate(), [], threading.Event()
    executor.submit(A, gate)
    executor.submit(A, lambda: done.append("a2"))
    executor.submit(A, lambda: (done.append("a3"), last.set()))
    other = threading.Event()
    executor.submit(B, lambda: (done.append("b"), other.set()))
    assert other.wait(SECONDS)
    assert done == ["b"]
    gate.is_open.set()
    assert last.wait(SECONDS)
    assert done == ["b", "a2", "a3"]
    executor.close(timeout_seconds=SECONDS)


def test_an_effect_that_fails_leaves_the_next_of_its_job_alone(caplog):
    executor, done = PerJobExecutor(), threading.Event()
    with caplog.at_level(logging.ERROR):
        executor.submit(A, lambda: 1 // 0)
        executor.submit(A, done.set)
        assert done.wait(SECONDS)
    (record,) = caplog.records
    assert (record.getMessage(), record.job) == ("An effect of a job failed", A)
    executor.close(timeout_seconds=SECONDS)


def test_no_more_jobs_have_their_effects_run_at_once_than_there_are_threads():
    executor, gate, done = PerJobExecutor(num_threads=1), Gate(), threading.Event()
    executor.submit(A, gate)
    executor.submit(B, done.set)
    assert gate.has_begun.wait(SECONDS)
    assert not done.is_set()
    gate.is_open.set()
    assert done.wait(SECONDS)
    executor.close(timeout_seconds=SECONDS)


def test_closing_drops_what_has_not_begun_and_waits_for_what_has():
    executor, gate, done = PerJobExecutor(num_threads=1), Gate(), []
    executor.submit(A, gate)
    executor.submit(A, lambda: done.append("a"))
    executor.submit(B, lambda: done.append("b"))
    assert gate.has_begun.wait(SECONDS)
    executor.close(timeout_seconds=0.0)
    executor.submit(B, lambda: done.append("b2"))
    gate.is_open.set()
    executor.close(timeout_seconds=SECONDS)
    assert done == []
