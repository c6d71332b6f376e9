"""Who may take the lease, and how long who leads tries to keep it."""

import queue
import threading

import pytest

from appliance.cluster.kubernetes.leadership import Leadership, may_take, observe
from appliance.core.errors import ClusterError
from tests.support.clock import FakeClock


def lease(version, holder, seconds=10):
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds}
    return {"metadata": {"resourceVersion": version}, "spec": spec}


def test_nobody_s_lease_may_be_taken():
    assert may_take(observe(None, None, now_seconds=0), "me", now_seconds=0)
    assert may_take(observe(lease("1", ""), None, now_seconds=0), "me", now_seconds=0)


def test_another_s_lease_may_be_taken_once_it_has_not_changed_for_its_length():
    first = observe(lease("1", "other"), None, now_seconds=100)
    assert not may_take(first, "me", now_seconds=110)
    again = observe(lease("1", "other"), first, now_seconds=110.5)
    assert may_take(again, "me", now_seconds=110.5)


def test_a_renewed_lease_counts_anew():
    first = observe(lease("1", "other"), None, now_seconds=100)
    renewed = observe(lease("2", "other"), first, now_seconds=109)
    assert not may_take(renewed, "me", now_seconds=115)


def test_what_its_writer_s_clock_says_does_not_count():
    old = lease("1", "other")
    old["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z"
    assert not may_take(observe(old, None, now_seconds=0), "me", now_seconds=1)


def test_one_s_own_lease_may_be_taken_at_any_time():
    assert may_take(observe(lease("1", "me"), None, now_seconds=0), "me", now_seconds=0)


class SlowApi:
    """An API server whose every call takes as long, and which keeps one lease.

    Args:
        clock: Moves on by what a call takes.
        latency_seconds: What it takes.
    """

    def __init__(self, clock, latency_seconds):
        self._clock, self._latency_seconds = clock, latency_seconds
        self._call_seconds = latency_seconds
        self._lease = None
        self.renewals = queue.SimpleQueue()

    def impatient(self, call_seconds):
        self._call_seconds = call_seconds
        return self

    def find(self, _, name):
        self._answer()
        return self._lease

    def create(self, _, body):
        return self.replace(_, body)

    def replace(self, _, body):
        self._answer()
        version = str(self.renewals.qsize())
        self._lease = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        self.renewals.put(self._clock.monotonic_seconds())
        return self._lease

    def _answer(self):
        self._clock.advance(min(self._latency_seconds, self._call_seconds))
        if self._call_seconds < self._latency_seconds:
            raise ClusterError("The Kubernetes API did not answer.")


@pytest.mark.parametrize(("latency", "keeps"), [(0.2, True), (0.3, False)])
def test_a_lead_is_kept_while_a_quarter_of_the_lease_is_enough_for_a_call(latency, keeps):
    """Calls take long on a busy node; who leads must not change for that."""
    clock, lost = FakeClock(), threading.Event()
    api = SlowApi(clock, 0.0)
    leadership = Leadership(
        api, name="the-lease", identity="me", seconds=1.0, clock=clock, on_lost=lost.set
    )
    assert leadership.acquire()
    api._latency_seconds = latency
    if keeps:
        for _ in range(4):
            api.renewals.get(timeout=60)
    else:
        assert lost.wait(60)
    assert lost.is_set() != keeps
    leadership.release()
