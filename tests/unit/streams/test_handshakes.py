"""Strangers who connect and prove nothing keep neither threads nor pods out."""

import contextlib
import socket

import pytest

from appliance.core.addresses import split_address
from appliance.core.clock import SystemClock
from appliance.streams.network.handshakes import Handshakes
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.server import NetworkServer
from tests.support.clock import FakeClock


class Clients:
    """Those that were accepted by one listener."""

    def __init__(self, stack, **limits):
        self.clock, self._stack = FakeClock(), stack
        self._handshakes = Handshakes(self.clock, seconds=9, **limits)

    def come(self, host):
        here, there = map(self._stack.enter_context, socket.socketpair())
        here.setblocking(False)
        number = self._handshakes.begin(there, host)
        self._stack.callback(self._handshakes.end, number)
        return here, number

    def prove(self, client):
        self._handshakes.end(client[1])


def is_hung_up_on(client):
    try:
        return client[0].recv(1) == b""
    except BlockingIOError:
        return False


@pytest.fixture
def stack():
    with contextlib.ExitStack() as closing:
        yield closing


def test_who_takes_too_long_is_hung_up_on_once_another_comes(stack):
    clients = Clients(stack)
    slow = clients.come("10.0.0.1")
    clients.clock.advance(5)
    fresh = clients.come("10.0.0.1")
    assert not is_hung_up_on(slow)
    clients.clock.advance(5)
    clients.come("10.0.0.2")
    assert is_hung_up_on(slow)
    assert not is_hung_up_on(fresh)


def test_where_there_are_too_many_the_oldest_of_who_has_most_goes(stack):
    clients = Clients(stack, most=4)
    pod = clients.come("10.0.0.1")
    strangers = [clients.come("10.6.6.6") for _ in range(20)]
    other = clients.come("10.0.0.2")
    assert list(map(is_hung_up_on, strangers)) == [True] * 18 + [False] * 2
    assert not is_hung_up_on(pod)
    assert not is_hung_up_on(other)


def test_who_has_proved_himself_is_left_alone(stack):
    clients = Clients(stack, most=1)
    known = clients.come("10.0.0.1")
    clients.prove(known)
    clients.clock.advance(60)
    clients.come("10.0.0.2")
    assert not is_hung_up_on(known)


def test_a_pod_is_answered_although_a_stranger_has_taken_all_places(stack):
    options = NetworkOptions(key=b"key")
    server = NetworkServer(options, owner="pod", clock=SystemClock())
    server._handshakes = Handshakes(SystemClock(), seconds=60, most=8)
    stack.callback(server.close)
    address = split_address(server.address)
    strangers = [
        stack.enter_context(socket.create_connection(address, timeout=60)) for _ in range(40)
    ]
    late = stack.enter_context(socket.create_connection(address, timeout=60))
    assert late.recv(1)
    for each in strangers[:20]:
        while each.recv(1 << 10):
            pass  # it is hung up on
