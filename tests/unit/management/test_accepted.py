"""Whose a connection is, is found out once, and nobody's is what is not known."""

import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from appliance.wire.connection_owner import Endpoint, Owner
from appliance.wire.connections import accepted as module
from appliance.wire.connections.accepted import NOBODY, Accepted, AcceptedConnections, accepted

ROOT, ADA = 0, 1000
RESET = struct.pack("ii", 1, 0)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a connection over loopback, the caller's first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        caller = socket.create_connection(listener.getsockname())
        connection, _ = listener.accept()
    with caller, connection:
        yield caller, connection


def kernel(uid: int, inode: int = 1):
    return lambda *_: Owner(uid, inode)


def test_it_is_of_whom_the_kernel_says(ends) -> None:
    assert accepted(ends[1], find=kernel(ADA)) == Accepted(host="127.0.0.1", uid=ADA)


def test_the_kernel_is_asked_about_exactly_its_ends(ends) -> None:
    caller, connection = ends
    asked = []
    accepted(connection, find=lambda *both: asked.append(both))
    assert asked == [(Endpoint(*caller.getsockname()), Endpoint(*connection.getsockname()))]


def test_one_that_the_kernel_does_not_know_is_nobodys_and_of_this_machine(ends) -> None:
    assert accepted(ends[1], find=lambda *_: None) == Accepted(host="127.0.0.1")


def test_one_that_has_ended_is_nobodys_whoever_has_its_port_now(ends) -> None:
    """Whoever resets a connection frees its port; root's next one may get it at once."""
    caller, connection = ends

    def find(*_: Endpoint) -> Owner:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        caller.close()
        return Owner(ROOT, 1)

    assert accepted(connection, find=find).uid is None
    assert accepted(connection, find=kernel(ROOT)) == NOBODY


def test_one_of_our_own_is_nobodys(ends) -> None:
    """What management connects to is chosen by others: it must not be the operator there."""
    assert accepted(ends[1]) == Accepted(host="127.0.0.1", uid=None)


def test_one_of_our_users_in_another_process_is_theirs(ends, monkeypatch) -> None:
    monkeypatch.setattr(module, "is_held_here", lambda _: False)
    monkeypatch.setattr(module.os, "geteuid", lambda: ADA)
    assert accepted(ends[1], find=kernel(ADA)).uid == ADA


def test_a_unix_socket_without_a_name_is_nobodys() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert accepted(one, find=kernel(ROOT)) == NOBODY
        assert AcceptedConnections().of_socket(one) == NOBODY


@pytest.mark.parametrize(
    ("uid", "is_local", "owner_uid", "may"),
    [
        (ADA, True, ADA, True),
        (ROOT, True, ADA, True),
        (1001, True, ADA, False),
        (None, True, ADA, False),  # of this machine, by whichever address, and nobody's
        (None, True, -1, False),
        (None, False, ADA, True),  # of another machine: who knows the authority
    ],
)
def test_a_job_is_reached_from_this_machine_by_its_owner_alone(
    uid, is_local, owner_uid, may
) -> None:
    whose = Accepted(host="192.0.2.2", uid=uid, is_local=is_local)
    assert whose.may_reach(owner_uid) is may


@pytest.mark.parametrize(
    ("peer", "here", "uid", "may"),
    [
        ("127.0.0.1", "192.0.2.2", 1001, False),  # this machine's, by another of its addresses
        ("127.0.0.1", "192.0.2.2", None, False),
        ("127.0.0.7", "127.0.0.1", None, False),
        ("::1", "2001:db8::2", None, False),
        ("127.0.0.1", "192.0.2.2", 1000, True),
        ("127.0.0.1", "192.0.2.2", 0, True),
        ("192.0.2.7", "192.0.2.2", None, True),  # another machine's, which knows the authority
        ("192.0.2.7", "127.0.0.1", None, True),  # one in a network namespace of its own
    ],
)
def test_a_job_is_not_reached_from_another_address_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, peer: str, here: str, uid: int | None, may: bool
) -> None:
    owner = None if uid is None else Owner(uid, 1)
    monkeypatch.setattr(module, "is_connected", lambda _: True)
    ends = SimpleNamespace(getpeername=lambda: (peer, 1), getsockname=lambda: (here, 2))
    assert accepted(ends, find=lambda *_: owner).may_reach(1000) is may


def test_a_name_leads_to_its_connection_until_that_ends_and_to_no_other_ever() -> None:
    known = AcceptedConnections()
    names = [known.add(Accepted(uid=uid)) for uid in (ROOT, ADA)]
    assert [known.of_call(f"unix-abstract:{name}").uid for name in names] == [ROOT, ADA]
    known.remove(names[0])
    known.remove(names[0])
    again = known.add(Accepted(uid=ADA))
    assert again not in names
    assert known.of_call(f"unix-abstract:{names[0]}") is NOBODY


@pytest.mark.parametrize(
    "peer", ["", "unix:", "unix-abstract:", "unix:/run/x", "ipv4:127.0.0.1:1", "{name}", "\0{name}"]
)
def test_a_call_by_anything_but_a_name_is_nobodys(peer: str) -> None:
    known = AcceptedConnections()
    name = known.add(Accepted(uid=ROOT))
    assert known.of_call(peer.format(name=name)) is NOBODY
