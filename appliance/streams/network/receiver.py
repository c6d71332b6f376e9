"""Receives tensors from another node straight into a local ring.

A receiver is the writer of a local ring. Bytes go from the socket straight into the ring's next
slot, or beside it (`appliance.streams.network.scatter`), as far ahead of the ring's readers as
there are free slots; each free slot is told to the sender as a credit. A message is published only
when it is whole and its checksum is right.
"""

import contextlib
import logging
import threading
from dataclasses import dataclass

from appliance.core.addresses import split_address
from appliance.core.clock import Clock
from appliance.core.errors import InternalError, StreamAbandonedError, StreamClosedError, WscError
from appliance.streams.doorbell import Deadline
from appliance.streams.handshake import Message
from appliance.streams.network.channel import Channel, open_channel
from appliance.streams.network.introduction import NotServedError, encrypted, introduce
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.scatter import Scatter
from appliance.streams.network.sender import OnFailure
from appliance.streams.network.server import connect
from appliance.streams.network.tcp_frames import ChannelBrokenError, Frame, Kind
from appliance.streams.ring_writer import SharedMemoryRingWriter

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Something that another node serves.

    Attributes:
        name: Its name there.
        address: host:port of its server.
        label: How this end is called there.
    """

    name: str
    address: str
    label: str


def dial(
    target: Target, request: Message, options: NetworkOptions, clock: Clock
) -> tuple[Channel, Message]:
    """Make one attempt to connect; return the connection and the server's answer.

    Raises:
        StreamClosedError: The server refuses for good.
        OSError: It did not work this time.
    """
    host, port = split_address(target.address)
    hello = {"name": target.name, "label": target.label, **request}
    connection = connect(host, port, options)
    try:
        connection = encrypted(connection, options, is_server=False)
        answer = introduce(connection, hello, options)
    except (WscError, OSError):
        connection.close()
        raise
    peer = f"{answer['label']} ({target.address})"
    return open_channel(connection, peer=peer, options=options, clock=clock), answer


class Receiver:
    """One remote ring, as a thread of this pod receives it.

    Args:
        target: The remote ring.
        scatter: What goes beside the ring's slots.
    """

    def __init__(
        self,
        target: Target,
        *,
        options: NetworkOptions,
        clock: Clock,
        scatter: Scatter | None = None,
    ) -> None:
        self._target, self._options, self._clock = target, options, clock
        self._scatter = scatter
        self._pause = threading.Event()
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._num_received = 0
        self._reported: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None
        self.num_connections = 0

    def connect(self, timeout_seconds: float) -> Message:
        """Connect for the first time and return the writer's name and the ring's measures.

        Raises:
            StreamClosedError: Nobody served the ring in time, or the writer refused.
        """
        return self._connect(timeout_seconds, "Nobody served")

    def start(self, ring: SharedMemoryRingWriter, on_failure: OnFailure) -> None:
        """Receive into a ring in a thread of its own, which closes the ring at the end.

        Args:
            ring: The local ring.
            on_failure: Told when the writer is gone.
        """

        def body() -> None:
            with ring:
                try:
                    self.run(ring)
                except StreamAbandonedError as error:
                    logger.info("Stream ended early", extra={"reason": str(error)})
                except Exception as error:  # noqa: BLE001 - outermost frame of a thread
                    if not self._pause.is_set():
                        on_failure(error)

        name = f"receive-{self._target.name}"
        self._thread = threading.Thread(target=body, name=name, daemon=True)
        self._thread.start()

    def run(self, ring: SharedMemoryRingWriter) -> None:
        """Receive into a ring until the stream ends.

        Raises:
            StreamAbandonedError: The writer, or every reader of the ring, gave up.
            StreamClosedError: The writer is gone, or `close` was called.
        """
        while True:
            channel = self._channel
            assert channel is not None
            try:
                self._receive(channel, ring)
            except OSError as error:
                if self._pause.is_set():
                    raise StreamClosedError(
                        f"Stream {self._target.name!r} was closed by this pod."
                    ) from error
                logger.warning(
                    "Stream connection broke",
                    extra={
                        "stream": self._target.name,
                        "peer": channel.peer,
                        "messages": self._num_received,
                        "reason": str(error),
                    },
                )
            else:
                return
            finally:
                channel.close()
            self._connect(self._options.gone_seconds, "There is no way back to")

    def close(self) -> None:
        """Give up, and tell the sender so; any thread may call it."""
        self._pause.set()
        with self._lock:
            if self._channel is not None:
                self._channel.interrupt()
        if self._thread is not None:
            self._thread.join()
        elif self._channel is not None:
            self._channel.close()

    def _connect(self, timeout_seconds: float, complaint: str) -> Message:
        deadline = Deadline(self._clock, timeout_seconds)
        while True:
            try:
                channel, answer = dial(
                    self._target, {"expected": self._num_received}, self._options, self._clock
                )
            except OSError as error:
                is_gone = isinstance(error, NotServedError) and self.num_connections > 0
                if is_gone or deadline.remaining_milliseconds() == 0 or self._pause.is_set():
                    raise StreamClosedError(
                        f"{complaint} stream {self._target.name!r} at {self._target.address} "
                        f"within {timeout_seconds:g} s, after {self._num_received} messages: "
                        f"{error}."
                    ) from error
                self._pause.wait(self._options.retry_seconds)
            else:
                with self._lock:
                    self._channel, self._reported = channel, None
                    self.num_connections += 1
                    if self._pause.is_set():
                        channel.interrupt()
                return answer

    def _receive(self, channel: Channel, ring: SharedMemoryRingWriter) -> None:
        try:
            while self._take_next(channel, ring):
                pass
        except StreamClosedError:
            self._say_abandoned(channel)
            raise
        except OSError:
            if self._pause.is_set():
                self._say_abandoned(channel)
            raise

    def _take_next(self, channel: Channel, ring: SharedMemoryRingWriter) -> bool:
        """Take one message; return False when it was the end."""
        self._make_room(channel, ring)
        frame = channel.receive_frame(lambda: self._tick(channel, ring))
        if frame.kind is Kind.ABANDONED:
            raise StreamAbandonedError(
                f"Stream {self._target.name!r} was abandoned by its writer {channel.peer}."
            )
        if frame.kind not in (Kind.DATA, Kind.END) or frame.number != self._num_received:
            raise ChannelBrokenError(
                f"{frame.kind.name} {frame.number} came instead of message {self._num_received}"
            )
        if frame.kind is Kind.DATA:
            self._take(channel, ring, frame)
            return True
        ring.end()
        self._num_received += 1
        with contextlib.suppress(OSError):  # who has sent everything does not wait for this receipt
            channel.send_frame(Frame(kind=Kind.PROGRESS, number=self._num_received))
        channel.linger()
        return False

    def _say_abandoned(self, channel: Channel) -> None:
        with contextlib.suppress(OSError):  # then the other end notices by itself
            channel.send_frame(Frame(kind=Kind.ABANDONED))

    def _make_room(self, channel: Channel, ring: SharedMemoryRingWriter) -> None:
        """Wait until the ring has a free slot, then give what is free as credit."""
        while not self._report(channel, ring):
            try:
                ring.reserve(self._options.ping_seconds)
            except TimeoutError:
                channel.ping()
        channel.excuse()

    def _take(self, channel: Channel, ring: SharedMemoryRingWriter, frame: Frame) -> None:
        slot = ring.reserve(0.0)
        if frame.amount > slot.nbytes:
            raise ChannelBrokenError(
                f"message {frame.number} has {frame.amount} bytes, a slot {slot.nbytes}"
            )
        targets: list[memoryview] | None = [slot.data[: frame.amount]]
        if self._scatter is not None:
            targets = self._scatter.targets(frame.number, frame.amount, slot, ring.area)
        if targets is None:
            raise InternalError(
                f"Message {frame.number} of stream {self._target.name!r} has {frame.amount} bytes, "
                "which is not what this pod's plan says."
            )
        channel.receive_payload(targets, channel.ping)
        ring.publish(frame.amount)
        self._num_received += 1

    def _tick(self, channel: Channel, ring: SharedMemoryRingWriter) -> None:
        self._report(channel, ring)
        channel.ping()

    def _report(self, channel: Channel, ring: SharedMemoryRingWriter) -> int:
        """Tell the sender what has arrived and how much more may come, if that is news.

        Without room that can wait: the sender learns of both as soon as there is some, and until
        then only keeps the slot of what has arrived.

        Returns:
            How much more may come.
        """
        num_free = ring.num_free_slots()
        limit = self._num_received + num_free
        if num_free and (self._num_received, limit) != self._reported:
            self._reported = (self._num_received, limit)
            frame = Frame(kind=Kind.PROGRESS, number=self._num_received, amount=limit)
            channel.send_frame(frame)
        return num_free
