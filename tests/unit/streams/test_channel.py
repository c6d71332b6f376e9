"""What a connection carries, and how long one on which nothing can be sent is waited for."""

import socket

import pytest

from appliance.streams.network.channel import Channel
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.tcp_frames import (
    CHECKSUM,
    FRAME_BYTES,
    ChannelBrokenError,
    Frame,
    Kind,
)
from appliance.streams.segment import Extent
from tests.support.clock import FakeClock

OPTIONS = NetworkOptions(silence_seconds=10.0)


@pytest.fixture
def clock():
    clock = FakeClock()
    clock.advance(1000.0)
    return clock


@pytest.fixture
def pair(clock):
    """A channel, and the other end of its connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours, peer="weight-0", options=OPTIONS, clock=clock), theirs


@pytest.fixture
def channel(pair):
    return pair[0]


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


FRAME = Frame(kind=Kind.PROGRESS, number=3, amount=5)


@pytest.mark.parametrize("size", [1, 5, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1])
def test_frames_arrive_whole_in_whatever_pieces_their_bytes_come(pair, size):
    channel, theirs = pair
    data, found = 3 * FRAME.encode(), []
    for start in range(0, len(data), size):
        theirs.sendall(data[start : start + size])
        found += channel.receive_frames_now()
        assert len(found) == min(len(data), start + size) // FRAME_BYTES
    assert found == 3 * [FRAME]
    theirs.close()
    with pytest.raises(ChannelBrokenError, match="closed the connection"):
        channel.receive_frames_now()


@pytest.mark.parametrize("content", [b"", b"payload"])
def test_all_of_a_message_but_its_end_is_said_to_be_followed_by_more(pair, content, monkeypatch):
    """The kernel sends it in as few packets as it can, and its end at once."""
    channel, theirs = pair
    sent = []

    def send_some(self, data, *, more):
        sent.append((len(data), more))
        return theirs.send(data)

    monkeypatch.setattr(Channel, "_send_some", send_some)
    monkeypatch.setattr(Channel, "_send_file", lambda self, descriptor, offset, size: size)
    frame = Frame(kind=Kind.DATA, number=0, amount=len(content))
    channel.send_extent(frame, Extent(view=memoryview(content), descriptor=-1, offset=0))
    assert [more for _, more in sent] == [True] * (len(sent) - 1) + [False]
    assert sum(size for size, _ in sent) == FRAME_BYTES + CHECKSUM.size
    assert len(sent) == (2 if content else 1)
