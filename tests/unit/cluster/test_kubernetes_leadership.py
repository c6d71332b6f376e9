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


class AwayApi(SlowApi):
    """An API server that is away from a time on, for so many seconds of the clock."""

    def __init__(self, clock):
        super().__init__(clock, 0.0)
        self.is_back, self.back_at, self.usurper = threading.Event(), 0.0, ""
        self._seconds = 0.0

    def go_away(self, seconds):
        self._seconds = seconds
        self.back_at = self._clock.monotonic_seconds() + seconds

    def _answer(self):
        if self._clock.monotonic_seconds() < self.back_at:
            self._clock.advance(self._seconds / 4)  # calls that take a while to fail
            raise ClusterError("The Kubernetes API did not answer.")
        if self.back_at:
            if self.usurper:
                self._lease["spec"]["holderIdentity"] = self.usurper
            self.is_back.set()


@pytest.mark.parametrize("seconds", [20, 90, 300])
@pytest.mark.parametrize(
    ("is_alone", "usurper", "is_lost"),
    [(True, "", False), (True, "other", True), (False, "", True), (False, "other", True)],
)
def test_an_api_server_that_is_away_takes_the_lead_from_nobody_who_is_alone(
    seconds, is_alone, usurper, is_lost
):
    clock, lost = FakeClock(), threading.Event()
    api = AwayApi(clock)
    leadership = Leadership(
        api,
        name="the-lease",
        identity="me",
        seconds=1.0,
        clock=clock,
        on_lost=lost.set,
        is_alone=is_alone,
    )
    assert leadership.acquire()
    while not api.renewals.empty():
        api.renewals.get()
    api.usurper = usurper
    api.go_away(seconds)
    if is_lost:
        assert lost.wait(60)
        assert api.is_back.is_set() == is_alone
    else:
        assert api.is_back.wait(60)
        assert api.renewals.get(timeout=60) >= api.back_at
        assert not lost.is_set()
    leadership.release()
