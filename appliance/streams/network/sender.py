"""Sends the tensors of a ring to another node, as they are published and without a copy.

A sender is a reader of the local ring. It keeps a slot until the receiver has acknowledged it, so
after a broken connection it sends again what did not arrive, from the same memory; the receiver
says which message it expects, so nothing is lost and nothing comes twice. It sends no more messages
than the receiver has room for: a free slot over there is a credit here.
"""

import logging
import select
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from appliance.core.clock import Clock
from appliance.core.errors import ConflictError, StreamAbandonedError, StreamClosedError
from appliance.streams.doorbell import Bell, Deadline
from appliance.streams.handshake import Message
from appliance.streams.network.channel import Channel
from appliance.streams.network.checksums import Checksums
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.tcp_frames import ChannelBrokenError, Frame, Kind
from appliance.streams.ring_reader import SharedMemoryRingReader
from appliance.streams.ring_writer import SharedMemoryRingWriter
from appliance.streams.segment import Extent

logger = logging.getLogger(__name__)

OnFailure = Callable[[Exception], None]
"""Told, from any thread, that a stream cannot go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """A slot that is out until it is acknowledged."""

    sequence: int
    content: Extent


class Sender:
    """One reader of a ring on another node.

    Args:
        ring: This end's reader of the local ring; closed by the sender.
        name: The stream's name.
        reader: The remote reader's name.
        on_failure: Told when the remote reader is gone.
        checksums: Of the ring's messages, if other senders need them, too.
    """

    def __init__(
        self,
        ring: SharedMemoryRingReader,
        *,
        name: str,
        reader: str,
        options: NetworkOptions,
        clock: Clock,
        on_failure: OnFailure,
        checksums: Checksums | None = None,
    ) -> None:
        self._ring, self._name, self._reader = ring, name, reader
        self._options, self._clock, self._on_failure = options, clock, on_failure
        self._checksums = checksums
        self._out: deque[_Message] = deque()
        self._num_acknowledged = self._num_acquired = self._num_sent = self._limit = 0
        self._end: int | None = None
        self._bell = Bell()
        self._offered: tuple[Channel, int] | None = None
        self._current: Channel | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self.num_connections = 0
        self.num_bytes_sent = 0
        self._thread = threading.Thread(target=self._run, name=f"send-{name}", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def check_resume(self, expected: int) -> None:
        """Check that a receiver which expects a certain message can be served.

        Raises:
            ConflictError: The message is gone: it was acknowledged before.
        """
        if expected < self._num_acknowledged:
            raise ConflictError(
                f"Stream {self._name!r} cannot go back to message {expected} for {self._reader}: "
                f"{self._num_acknowledged} messages were acknowledged and their slots given back."
            )

    def connect(self, channel: Channel, expected: int) -> None:
        """Go on over a new connection, from the message that the receiver expects.

        The connection is closed if it comes too late: everything has been sent, or given up.
        """
        with self._lock:
            unused: Channel | None = channel
            if not self._is_closed:
                unused = None if self._offered is None else self._offered[0]
                self._offered = (channel, expected)
                if self._current is not None:
                    self._current.cut()
                self._bell.ring()
        if unused is not None:
            unused.close()

    def join(self, timeout_seconds: float) -> None:
        """Wait until everything has been acknowledged, or the time is over.

        A reader that is not connected is not waited for: this end is about to go.
        """
        if self._current is not None or self._offered is not None:
            self._thread.join(timeout_seconds)

    def close(self) -> None:
        """Give up."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._bell.ring()
            if self._current is not None:
                self._current.cut()
        self._thread.join()

    def _run(self) -> None:
        """Serve connection after connection; the body of the sender's thread."""
        try:
            while not self._is_done():
                channel = self._await_connection()
                if channel is None:
                    return
                self._serve(channel)
        except StreamAbandonedError as error:
            logger.info("Stream ended early", extra={"reason": str(error)})
        except Exception as error:  # noqa: BLE001 - outermost frame of a thread
            if not self._is_closed:
                self._on_failure(error)
        finally:
            self._ring.close()
            with self._lock:
                self._is_closed = True
                self._bell.close()
                if self._offered is not None:
                    self._offered[0].close()

    def _is_done(self) -> bool:
        return self._end is not None and self._num_acknowledged > self._end

    def _await_connection(self) -> Channel | None:
        """Return the next connection; None when there is nothing more to do."""
        deadline = Deadline(self._clock, self._options.gone_seconds)
        poller = select.poll()
        poller.register(self._bell, select.POLLIN)
        while True:
            with self._lock:
                self._bell.quiet()
                if self._is_closed:
                    return None
                if self._offered is not None:
                    (channel, expected), self._offered = self._offered, None
                    self._current = channel
                    self.num_connections += 1
                    self._rewind(expected)
                    return channel
            if not poller.poll(deadline.remaining_milliseconds()):
                if self._end in (self._num_acknowledged, self._num_sent - 1):
                    return None  # a reader that lacks nothing, or only the end, does not come back
                raise StreamClosedError(
                    f"Stream {self._name!r} lost its reader {self._reader}: it has not come back "
                    f"for {self._options.gone_seconds:g} s, after {self._num_acknowledged} "
                    f"messages acknowledged and {len(self._out)} on the way.",
                    hint="Check the network between the two nodes and run the job again.",
                )

    def _rewind(self, expected: int) -> None:
        self._acknowledge(expected)
        self._num_sent = self._limit = expected

    def _serve(self, channel: Channel) -> None:
        """Send over one connection until everything is acknowledged or it breaks."""
        poller = select.poll()
        poller.register(channel, select.POLLIN)
        poller.register(self._bell, select.POLLIN)
        try:
            while not self._is_done():
                if self._may_send():
                    self._send_next(channel)
                else:
                    self._wait(channel, poller)
        except StreamAbandonedError:
            self._say_abandoned(channel)
            raise
        except OSError as error:
            if not self._is_closed and not self._is_done():
                logger.warning(
                    "Stream connection broke",
                    extra={"stream": self._name, "peer": channel.peer, "reason": str(error)},
                )
        finally:
            with self._lock:
                self._current = None
            channel.close()

    def _take_reports(self, channel: Channel) -> None:
        for frame in channel.receive_frames_now():
            match frame.kind:
                case Kind.PROGRESS:
                    self._acknowledge(frame.number)
                    self._limit = max(self._limit, frame.amount)
                case Kind.ABANDONED:
                    raise StreamAbandonedError(
                        f"Stream {self._name!r} was abandoned by its reader {self._reader}."
                    )
                case _:
                    raise ChannelBrokenError(f"a receiver sent {frame.kind.name}")

    def _acknowledge(self, num_received: int) -> None:
        while self._out and self._out[0].sequence < num_received:
            self._out.popleft()
            self._ring.release()
        self._num_acknowledged = max(self._num_acknowledged, num_received)

    def _may_send(self) -> bool:
        """Return whether the receiver has room for a message, and there is one here or the end."""
        return self._num_sent < self._limit and (
            self._num_sent < self._num_acquired or self._num_sent == self._end
        )

    def _send_next(self, channel: Channel) -> None:
        if self._num_sent == self._end:
            channel.send_frame(Frame(kind=Kind.END, number=self._num_sent))
        else:
            message = self._out[self._num_sent - self._out[0].sequence]
            amount = len(message.content.view)
            frame = Frame(kind=Kind.DATA, number=message.sequence, amount=amount)
            channel.send_extent(frame, message.content, self._checksum(message))
            self.num_bytes_sent += amount
        self._num_sent += 1

    def _checksum(self, message: _Message) -> int | None:
        """Return the checksum of a message that others send, too; None has it summed meanwhile."""
        if self._checksums is None or len(message.content.view) > self._options.block_bytes:
            return None
        return self._checksums.of(message.sequence, message.content.view)

    def _wait(self, channel: Channel, poller: select.poll) -> None:
        """Take in a report, or a slot if there is room for one; waits for either, or `connect`."""
        wants_slot = self._num_sent < self._limit and self._end is None
        if wants_slot:
            poller.register(self._ring, select.POLLIN)
        has_unread = channel.has_unread
        ready = poller.poll(0 if has_unread else 1000 * self._options.ping_seconds)
        descriptors = {descriptor for descriptor, _ in ready}
        if wants_slot:
            poller.unregister(self._ring)
        if self._is_closed or self._offered is not None:
            raise ChannelBrokenError("another connection takes over")
        if has_unread or channel.fileno() in descriptors:
            self._take_reports(channel)
        if wants_slot and self._ring.fileno() in descriptors:
            self._take_slot()
        channel.ping()
        channel.check()

    def _take_slot(self) -> None:
        """Acquire the slot, or take the end, that a poll has told of."""
        if self._ring.acquire() is None:
            self._end = self._num_acquired
            return
        self._out.append(_Message(sequence=self._num_acquired, content=self._ring.extent()))
        self._num_acquired += 1

    def _say_abandoned(self, channel: Channel) -> None:
        try:
            channel.send_frame(Frame(kind=Kind.ABANDONED))
        except OSError as error:
            logger.info("Peer was not told", extra={"stream": self._name, "reason": str(error)})


class RingService:
    """A local ring as the network server offers it: one sender for each reader that comes.

    Args:
        ring: The ring, served in this process.
        name: The stream's name.
        on_failure: Told when a reader is gone.
    """

    def __init__(
        self,
        ring: SharedMemoryRingWriter,
        *,
        name: str,
        options: NetworkOptions,
        clock: Clock,
        on_failure: OnFailure,
    ) -> None:
        self._ring, self._name = ring, name
        self._options, self._clock, self._on_failure = options, clock, on_failure
        self._senders: dict[str, Sender] = {}
        self._checksums = Checksums() if ring.num_readers > 1 else None
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """Whether the ring is closed and every reader has got everything."""
        return self._ring.is_closed and all(sender.is_over for sender in self._senders.values())

    @property
    def num_bytes_sent(self) -> int:
        """Bytes of slots that readers were sent, those that were sent again counted again."""
        return sum(sender.num_bytes_sent for sender in list(self._senders.values()))

    def greet(self, hello: Message) -> Message:
        """Let a reader join the ring, or come back to it."""
        reader, expected = str(hello["label"]), int(hello["expected"])
        with self._lock:
            if reader not in self._senders:
                self._senders[reader] = Sender(
                    self._ring.attach(reader),
                    name=self._name,
                    reader=reader,
                    options=self._options,
                    clock=self._clock,
                    on_failure=self._on_failure,
                    checksums=self._checksums,
                )
            self._senders[reader].check_resume(expected)
        return {"num_slots": self._ring.num_slots, "slot_bytes": self._ring.slot_bytes}

    def take(self, hello: Message, channel: Channel) -> None:
        """Hand a reader's connection to its sender."""
        self._senders[str(hello["label"])].connect(channel, int(hello["expected"]))

    def join(self, timeout_seconds: float) -> None:
        """Wait until every reader has got everything, or the time is over."""
        for sender in list(self._senders.values()):
            sender.join(timeout_seconds)

    def close(self) -> None:
        """Give up on every reader."""
        for sender in list(self._senders.values()):
            sender.close()
