"""What gRPC calls a connection's other end, and whose the kernel says it is."""

import os
import socket

import pytest

from appliance.wire import connection_owner as peers
from appliance.wire.connection_owner import Endpoint, parse_peer, uid_of_peer


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("ipv4:127.0.0.1:40000", Endpoint("127.0.0.1", 40000)),
        ("ipv6:%5B::1%5D:40000", Endpoint("::1", 40000)),
        ("ipv6:[::ffff:127.0.0.1]:40000", Endpoint("127.0.0.1", 40000)),
        ("unix:", None),
        ("unix:/run/x", None),
        ("ipv4:localhost:1", None),
        ("ipv4:127.0.0.1:", None),
        ("", None),
    ],
)
def test_the_name_of_a_peer_is_read(text: str, want: Endpoint | None) -> None:
    assert parse_peer(text) == want


@pytest.mark.parametrize("is_netlink", [True, False])
@pytest.mark.parametrize(
    ("family", "host"),
    [
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET6, "::1"),
        (socket.AF_INET6, "::ffff:127.0.0.1"),  # as gRPC connects to an IPv4 address
    ],
)
def test_the_kernel_says_whose_each_family_of_socket_is(monkeypatch, family, host, is_netlink):
    if is_netlink:
        monkeypatch.setattr(peers, "_TABLES", ())
    else:
        monkeypatch.setattr(peers, "_ask", lambda *_: None)
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.socket(family) as client,
    ):
        here = Endpoint(host, server.getsockname()[1])
        client.connect((here.host, here.port))
        with server.accept()[0]:
            there = Endpoint(host, client.getsockname()[1])
            assert uid_of_peer(there, here) == os.getuid()
            assert uid_of_peer(Endpoint(host, here.port), here) is None
