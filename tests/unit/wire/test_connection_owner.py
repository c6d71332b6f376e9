"""Whose the kernel says a connection's other end is."""

import errno
import os
import socket

import pytest

from appliance.wire import connection_owner as peers
from appliance.wire.connection_owner import (
    Endpoint,
    find_owner,
    is_held_here,
    is_own_address,
)


def not_served(*_: object) -> None:
    """Be a kernel without `sock_diag`."""
    raise OSError(errno.EOPNOTSUPP, "not supported")


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
        monkeypatch.setattr(peers, "_ask", not_served)
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.socket(family) as client,
    ):
        here = Endpoint(host, server.getsockname()[1])
        client.connect((here.host, here.port))
        with server.accept()[0]:
            there = Endpoint(host, client.getsockname()[1])
            owner = find_owner(there, here)
            assert owner is not None
            assert owner.uid == os.getuid()
            assert is_held_here(owner.inode)
            assert find_owner(Endpoint(host, here.port), here) is None
        assert find_owner(there, here) is None  # it has been closed at one end
    assert not is_held_here(owner.inode)


@pytest.mark.parametrize("listening_at", ["127.0.0.2", "0.0.0.0"])
def test_a_socket_is_found_whatever_addresses_it_connects(listening_at: str) -> None:
    with socket.create_server((listening_at, 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.2", port), source_address=("127.0.0.1", 0)) as own:
            there = Endpoint(*own.getsockname())
            assert find_owner(there, Endpoint("127.0.0.2", port)) is not None
            assert find_owner(there, Endpoint("127.0.0.3", port)) is None


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", True),  # by which this machine reaches itself, too
        ("::", True),
        ("192.0.2.77", False),
        ("2001:db8::77", False),
    ],
)
def test_an_address_of_this_machine_is_known_as_such(host: str, is_own: bool) -> None:
    assert is_own_address(host) is is_own
