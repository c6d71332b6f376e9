"""Whose connection the kernel is asked about."""

import pytest

from appliance.management.access import local_users
from appliance.management.access.local_users import LocalPeers
from appliance.wire.connection_owner import Endpoint

HERE, PEER = Endpoint("127.0.0.1", 9000), Endpoint("127.0.0.1", 40000)
CLIENT, FRONT = Endpoint("127.0.0.1", 50000), Endpoint("127.0.0.1", 443)


@pytest.fixture
def owners(monkeypatch):
    """Who owns the far end of each connection, as the kernel would say."""
    found = {(PEER, HERE): 0, (CLIENT, FRONT): 1000}
    monkeypatch.setattr(local_users, "uid_of_peer", lambda *ends: found[ends])
    return found


def test_a_direct_connection_is_its_own(owners):
    assert LocalPeers().uid_of(PEER, HERE) == 0


def test_a_connection_that_was_passed_on_is_of_who_made_it_and_not_of_who_passes_it_on(owners):
    peers = LocalPeers()
    peers.follow({PEER: (CLIENT, FRONT)}.get)
    assert peers.uid_of(PEER, HERE) == 1000


def test_a_connection_that_was_not_passed_on_is_direct_though_others_are(owners):
    peers = LocalPeers()
    peers.follow({CLIENT: (CLIENT, FRONT)}.get)
    assert peers.uid_of(PEER, HERE) == 0


def test_nobody_is_known_before_it_is_said_where_calls_arrive(owners):
    peers = LocalPeers()
    assert peers.uid_of_call("ipv4:127.0.0.1:40000") is None
    peers.serve_at(HERE.host, HERE.port)
    assert peers.uid_of_call("ipv4:127.0.0.1:40000") == 0
    assert peers.uid_of_call("unix:/tmp/socket") is None
