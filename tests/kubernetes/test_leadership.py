"""Of several managements one leads, and another follows when it is gone."""

import math
import threading
from functools import cache

import pytest

from appliance.cluster.kubernetes.leadership import Leadership
from appliance.cluster.kubernetes.object_kinds import LEASE
from appliance.core.clock import SystemClock
from tests.support.faulty_link import FaultyLink
from tests.support.waiting import patience, wait_until


@cache
def lease_seconds() -> int:
    """Return how long a lease lasts: a renewal takes long where many wait for a processor."""
    return math.ceil(patience(6))


class Candidate:
    """A candidate in a thread; `has_lost` is set when its lead is lost.

    Args:
        api: The cluster.
        identity: Its name.
        order: Takes its name when it leads, and when it has lost its lead.
    """

    def __init__(self, api, identity, order=None):
        self.leads, self.has_lost = threading.Event(), threading.Event()
        self._identity, self._order = identity, [] if order is None else order
        self.leadership = Leadership(
            api,
            name="the-lease",
            identity=identity,
            seconds=lease_seconds(),
            clock=SystemClock(),
            on_lost=self._lose,
            labels={"app.kubernetes.io/instance": "wafer"},
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        if self.leadership.acquire():
            self._order.append(f"{self._identity} leads")
            self.leads.set()

    def _lose(self):
        self._order.append(f"{self._identity} has lost")
        self.has_lost.set()

    def stop(self):
        self.leadership.release()
        self.thread.join(120)


def test_one_leads_and_the_next_follows_at_once_when_it_gives_the_lead_back(api, account):
    candidates = [Candidate(api, f"candidate-{number}") for number in range(3)]
    order = []
    while candidates:
        wait_until(
            lambda: any(each.leads.is_set() for each in candidates), seconds=120, what="a leader"
        )
        (leader,) = [each for each in candidates if each.leads.is_set()]
        holder = account.admin.find(LEASE, "the-lease")["spec"]["holderIdentity"]
        order.append(holder)
        leader.stop()
        candidates.remove(leader)
        assert not leader.has_lost.is_set()
    assert len(set(order)) == 3
    lease = account.admin.find(LEASE, "the-lease")
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("", 3)
    assert lease["metadata"]["labels"] == {"app.kubernetes.io/instance": "wafer"}


def test_a_leader_that_is_cut_off_knows_it_before_another_leads(kube, account, api):
    order = []
    with FaultyLink(kube.address) as link:
        mine = kube.as_account(account.namespace, account.token, address=link.address)
        first = Candidate(mine, "first", order)
        assert first.leads.wait(120)
        second = Candidate(api, "second", order)
        link.take_down()
        assert second.leads.wait(120)
        assert order == ["first leads", "first has lost", "second leads"]
        second.stop()


def test_a_leader_gives_up_when_somebody_else_is_written_into_its_lease(api, account):
    first = Candidate(api, "first")
    assert first.leads.wait(120)
    change = {"spec": {"holderIdentity": "usurper"}}
    account.admin.patch(LEASE, "the-lease", change)
    assert first.has_lost.wait(120)
    first.stop()


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_crashed_leader_is_followed_after_its_lease(api, account, order):
    """Nobody renews: the process is gone."""
    old, new = order
    spec = {"holderIdentity": old, "leaseDurationSeconds": lease_seconds()}
    account.admin.create(LEASE, {"metadata": {"name": "the-lease"}, "spec": spec})
    candidate = Candidate(api, new)
    assert not candidate.leads.wait(lease_seconds() / 2)
    assert candidate.leads.wait(120)
    candidate.stop()
