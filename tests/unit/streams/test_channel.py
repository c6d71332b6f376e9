"""How long a connection on which nothing can be sent is waited for."""

import socket

import pytest

from appliance.streams.network.channel import Channel
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.tcp_frames import ChannelBrokenError
from tests.support.clock import FakeClock

OPTIONS = NetworkOptions(silence_seconds=10.0)


@pytest.fixture
def clock():
    clock = FakeClock()
    clock.advance(1000.0)
    return clock


@pytest.fixture
def channel(clock):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours, peer="weight-0", options=OPTIONS, clock=clock)


def sending(clock, counts):
    """Return what sends so many bytes at each call, each of which takes a second."""
    calls = iter(counts)

    def send_some(start):
        clock.advance(1.0)
        return next(calls)

    return send_some


def test_a_connection_is_given_up_when_nothing_could_be_sent_for_the_whole_time(channel, clock):
    with pytest.raises(ChannelBrokenError, match=r"nothing could be sent for 11\.0 s"):
        channel._send_all(100, sending(clock, [0] * 12))


def test_a_connection_may_stand_still_for_just_that_time(channel, clock):
    channel._send_all(100, sending(clock, [*[0] * 11, 100]))
    assert channel.num_bytes_sent == 100


def test_time_counts_anew_after_each_byte(channel, clock):
    channel._send_all(2, sending(clock, [*[0] * 11, 1, *[0] * 11, 1]))
    assert channel.num_bytes_sent == 2
