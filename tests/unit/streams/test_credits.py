"""A sender sends no more than the receiver has slots for, and resumes where a connection broke."""

import queue
import threading
from collections import deque

import pytest

from appliance.core.errors import ConflictError
from appliance.streams.doorbell import Bell
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.sender import Sender
from appliance.streams.network.tcp_frames import ChannelBrokenError, Frame, Kind
from appliance.streams.segment import Extent
from tests.support.clock import FakeClock

SECONDS = 120
"""After so long a test fails instead of waiting for an event that does not come."""


class PlayedRing:
    """The reading end of a ring with messages of one byte, followed by its end."""

    def __init__(self, num_messages):
        self._messages = deque(range(num_messages))
        self._bell, self._last = Bell(), None
        self._bell.ring()
        self.num_released = 0
        self.is_closed = False

    def fileno(self):
        return self._bell.fileno()

    def acquire(self):
        self._last = bytes([self._messages.popleft()]) if self._messages else None
        return self._last

    def extent(self):
        return Extent(view=memoryview(self._last), descriptor=-1, offset=0)

    def release(self):
        self.num_released += 1

    def close(self):
        self.is_closed = True


class PlayedChannel:
    """A connection to a receiver that the test plays; what the sender does arrives in `done`."""

    peer = "chief-0"

    def __init__(self):
        self.done = queue.SimpleQueue()
        self._frames, self._bell = deque(), Bell()
        self._is_cut = False

    def fileno(self):
        return self._bell.fileno()

    @property
    def has_unread(self):
        self.done.put("waits")
        return False

    def send_frame(self, frame):
        self.done.put(frame.kind.name)

    def send_extent(self, frame, extent, checksum=None):
        self.done.put((frame.number, bytes(extent.view)))

    def receive_frames_now(self):
        self._bell.quiet()
        if self._is_cut:
            raise ChannelBrokenError("it was cut")
        return [self._frames.popleft() for _ in range(len(self._frames))]

    def ping(self):
        """Say nothing: the test's receiver does not listen for signs of life."""

    check = ping

    def close(self):
        self.done.put("closed")

    def report(self, num_received, limit):
        self._frames.append(Frame(kind=Kind.PROGRESS, number=num_received, amount=limit))
        self._bell.ring()

    def abandon(self):
        self._frames.append(Frame(kind=Kind.ABANDONED))
        self._bell.ring()

    def cut(self):
        self._is_cut = True
        self._bell.ring()

    def until(self, last):
        """Return what the sender did, up to something that it must come to."""
        found = []
        while (each := self.done.get(timeout=SECONDS)) != last:
            found.append(each)
        return found

    def sent_until(self, last):
        """Return what the sender sent, with something that it must come to."""
        return [each for each in self.until(last) if each != "waits"] + [last]


class Sending:
    """A sender of some messages, and the failures that it reports."""

    def __init__(self, num_messages, **times):
        self.ring, self.failures = PlayedRing(num_messages), queue.SimpleQueue()
        self.sender = Sender(
            self.ring,
            name="broadcast",
            reader="chief-0",
            options=NetworkOptions(**{"host": "", "key": b"", "gone_seconds": SECONDS, **times}),
            clock=FakeClock(),
            on_failure=self.failures.put,
        )

    def connect(self, expected=0):
        channel = PlayedChannel()
        self.sender.connect(channel, expected)
        return channel


@pytest.fixture
def sending():
    made = []

    def make(num_messages, **times):
        made.append(Sending(num_messages, **times))
        return made[-1]

    yield make
    for each in made:
        each.sender.close()
        assert each.ring.is_closed


def message(number):
    return (number, bytes([number]))


def test_nothing_is_sent_before_the_receiver_gives_credit(sending):
    channel = sending(3).connect()
    assert channel.until("waits") == []
    channel.report(0, 2)
    assert channel.sent_until(message(1)) == [message(0), message(1)]
    assert channel.until("waits") == []
    channel.report(1, 3)
    assert channel.sent_until(message(2)) == [message(2)]


def test_a_slot_is_given_back_when_its_message_is_acknowledged_and_no_sooner(sending):
    ends = sending(3)
    channel = ends.connect()
    channel.report(0, 3)
    assert channel.sent_until(message(2)) == [message(0), message(1), message(2)]
    channel.until("waits")
    assert ends.ring.num_released == 0
    channel.report(2, 3)
    channel.until("waits")
    assert ends.ring.num_released == 2


def test_an_older_report_takes_no_credit_back(sending):
    channel = sending(4).connect()
    channel.report(0, 3)
    channel.report(1, 2)
    channel.until(message(2))


def test_what_was_not_acknowledged_is_sent_again_over_a_new_connection(sending):
    ends = sending(3)
    first = ends.connect()
    first.report(0, 3)
    first.until(message(2))
    second = ends.connect(expected=1)
    first.until("closed")
    second.report(1, 3)
    assert second.sent_until(message(2)) == [message(1), message(2)]
    assert ends.ring.num_released == 1


def test_a_receiver_cannot_go_back_behind_what_it_acknowledged(sending):
    ends = sending(3)
    channel = ends.connect()
    channel.report(0, 2)
    channel.until(message(1))
    channel.until("waits")
    channel.report(2, 2)
    channel.until("waits")
    ends.sender.check_resume(2)
    with pytest.raises(ConflictError, match="cannot go back to message 1"):
        ends.sender.check_resume(1)


def test_the_end_is_a_message_that_needs_credit_and_a_receipt(sending):
    ends = sending(1)
    channel = ends.connect()
    channel.report(0, 1)
    channel.until(message(0))
    channel.until("waits")
    channel.report(1, 2)
    channel.until("END")
    channel.until("waits")
    assert not ends.sender.is_over
    channel.report(2, 3)
    channel.until("closed")
    ends.sender.join(SECONDS)
    assert ends.failures.empty()


def joining(ends):
    thread = threading.Thread(target=ends.sender.join, args=(SECONDS,))
    thread.start()
    return thread


def test_a_connected_reader_is_waited_for_until_it_has_everything(sending):
    ends = sending(1)
    channel = ends.connect()
    channel.report(0, 2)
    channel.until("END")
    joined = joining(ends)
    joined.join(0.05)
    assert joined.is_alive()
    channel.report(2, 3)
    joined.join(SECONDS)
    assert not joined.is_alive()
    assert ends.sender.is_over


def test_a_reader_that_is_not_connected_is_not_waited_for(sending):
    ends = sending(1)
    joined = joining(ends)
    joined.join(SECONDS / 2)
    assert not joined.is_alive()
    assert not ends.sender.is_over


@pytest.mark.parametrize("has_sent_the_end", [False, True])
def test_a_reader_that_may_have_everything_need_not_come_back(sending, has_sent_the_end):
    ends = sending(2, ping_seconds=0.01, silence_seconds=0.02, gone_seconds=0.05)
    channel = ends.connect()
    channel.report(0, 3 if has_sent_the_end else 2)
    channel.until("END" if has_sent_the_end else message(1))
    channel.until("waits")
    channel.cut()
    channel.until("closed")
    ends.sender._thread.join(SECONDS)
    assert ends.failures.empty() == has_sent_the_end


def test_a_receiver_that_gives_up_is_no_failure_of_this_pod(sending):
    ends = sending(1)
    channel = ends.connect()
    channel.abandon()
    channel.until("ABANDONED")
    channel.until("closed")
    assert ends.failures.empty()


@pytest.mark.parametrize("gives_up", [False, True])
def test_a_connection_that_comes_too_late_is_closed(sending, gives_up):
    ends = sending(0)
    channel = ends.connect()
    if gives_up:
        channel.abandon()
    else:
        channel.report(0, 1)
        channel.until("END")
        channel.report(1, 2)
    channel.until("closed")
    ends.sender.close()
    assert ends.connect(expected=1).until("closed") == []
