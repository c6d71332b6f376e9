"""The kernel says whose connections over loopback are."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from appliance.wire import connection_owner as peers
from appliance.wire.connection_owner import Endpoint, find_owner
from appliance.wire.connections.accepted import Accepted
from appliance.wire.connections.accepted import accepted as accept

NOBODY = 65534
CALLER = """
import encodings.idna, os, socket, sys
os.setgid({uid}); os.setuid({uid})  # who may not be able to read Python's own modules any more
connection = socket.create_connection(("{host}", {port}))
print(flush=True)
sys.stdin.read()
"""


def ends(accepted: socket.socket) -> tuple[Endpoint, Endpoint]:
    return Endpoint(*accepted.getpeername()[:2]), Endpoint(*accepted.getsockname()[:2])


def uid_of(accepted: socket.socket) -> int | None:
    owner = find_owner(*ends(accepted))
    return None if owner is None else owner.uid


@contextmanager
def accepted(host: str, uid: int) -> Iterator[socket.socket]:
    """Accept a connection of another process, of a user."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        port = listener.getsockname()[1]
        with subprocess.Popen(
            [sys.executable, "-c", CALLER.format(uid=uid, host=host, port=port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as caller:
            assert caller.stdout is not None
            listener.settimeout(60)
            connection, _ = listener.accept()
            with connection:
                caller.stdout.readline()
                yield connection
                caller.communicate()


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")


@needs_root
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_kernel_knows_whose_connection_it_is(host: str) -> None:
    with accepted(host, NOBODY) as connection:
        assert uid_of(connection) == NOBODY
    with accepted(host, 0) as connection:
        assert uid_of(connection) == 0


@needs_root
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_its_tables_say_the_same_as_its_answers(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_NETLINK_SOCK_DIAG", 31)  # a protocol that nobody serves
    monkeypatch.setattr(peers, "_threads", SimpleNamespace())
    with accepted(host, NOBODY) as connection:
        assert uid_of(connection) == NOBODY


@needs_root
def test_a_socket_that_was_let_go_is_not_taken_for_roots() -> None:
    """The kernel says 0 of sockets without a process, whoever had them."""
    with accepted("127.0.0.1", NOBODY) as connection:
        there, here = ends(connection)
    assert find_owner(there, here) is None


def test_a_connection_of_another_address_is_nobodys() -> None:
    assert find_owner(Endpoint("10.255.255.1", 1), Endpoint("127.0.0.1", 2)) is None


@needs_root
def test_a_job_is_reached_over_loopback_by_its_owner_and_by_us() -> None:
    with accepted("127.0.0.1", NOBODY) as connection:
        assert accept(connection).may_reach(NOBODY)
        assert not accept(connection).may_reach(1234)
    with accepted("127.0.0.1", os.getuid()) as connection:
        assert accept(connection).may_reach(1234)
    assert Accepted(host="10.0.0.7", is_local=False).may_reach(1234)
