"""Where calls come from, in front of clients' one port and behind it."""

import pytest

from appliance.management.access.local_users import LocalPeers
from appliance.wire.connection_owner import Endpoint

FRONT = Endpoint("127.0.0.1", 40_000)
CLIENT = Endpoint("192.0.2.7", 50_000), Endpoint("192.0.2.1", 9_000)


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:127.0.0.1:40000", "192.0.2.7"),
        ("ipv4:127.0.0.1:40001", "127.0.0.1"),
        ("ipv4:192.0.2.9:40000", "192.0.2.9"),
        ("ipv6:%5B2001:db8::1%5D:40000", "2001:db8::1"),
        ("unix:", "unix:"),
    ],
)
def test_a_call_comes_from_where_its_client_connected_from(peer: str, host: str) -> None:
    peers = LocalPeers()
    peers.follow({FRONT: CLIENT}.get)
    assert peers.host_of_call(peer) == host
