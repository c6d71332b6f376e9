"""A client of a store whose handshake ends when the pod's streams have been closed."""

import socket
from types import SimpleNamespace

from appliance.core.clock import SystemClock
from appliance.streams.network.channel import open_channel
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.remote_store import StoreService

SECONDS, SILENCE_SECONDS = 120, 300


def test_a_connection_that_comes_too_late_is_closed():
    near, far = socket.socketpair()
    with near, far:
        far.settimeout(SECONDS)
        options = NetworkOptions(silence_seconds=SILENCE_SECONDS, gone_seconds=600)
        channel = open_channel(near, peer="chief-0", options=options, clock=SystemClock())
        service = StoreService(SimpleNamespace(is_closed=True), "values")
        service.close()
        service.take({"label": "chief-0"}, channel)
        assert far.recv(1) == b""
