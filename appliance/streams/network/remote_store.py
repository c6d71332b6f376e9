"""A store on another node: bytes are fetched and put by request, one connection for each client.

A request is a JSON text in a `REQUEST` frame; what is to be written follows in a `DATA` frame. The
answer is a `REPLY` frame: number 0 with the bytes that were asked for, or 1 with the reason why
not. Requests may be repeated without harm, so a broken connection is simply made anew.
"""

import functools
import json
import logging
import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from appliance.core.clock import Clock
from appliance.core.errors import NotFoundError, StreamClosedError
from appliance.streams.closing import ClosedOnExit
from appliance.streams.doorbell import Deadline
from appliance.streams.handshake import Message
from appliance.streams.network.channel import Channel
from appliance.streams.network.introduction import NotServedError
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.receiver import Target, dial
from appliance.streams.network.tcp_frames import ChannelBrokenError, Frame, Kind
from appliance.streams.protocol import Piece
from appliance.streams.slot_layout import LayoutItem, SlotLayout
from appliance.streams.store import StoreServer, parse_layout

logger = logging.getLogger(__name__)

_FOUND, _REFUSED = 0, 1
_MAX_REQUEST_BYTES = 64 << 20
_SIZE_BYTES = 8
_CONNECT_SECONDS = 10.0
"""Every store is served since `Load`; only a dead or stopped pod keeps anyone waiting so long."""

Answer = list[memoryview]
Room = Callable[[int], Answer]


class StoreService:
    """A store as the network server offers it.

    Args:
        store: The store, served in this process.
        name: Its name, for messages.
    """

    def __init__(self, store: StoreServer, name: str) -> None:
        self._store, self._name = store, name
        self._channels: set[Channel] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def is_over(self) -> bool:
        """Whether the store is closed."""
        return self._store.is_closed

    def greet(self, hello: Message) -> Message:
        """Let every client of the job in."""
        return {}

    def take(self, hello: Message, channel: Channel) -> None:
        """Answer a client's requests in a thread; closes the connection if it comes too late."""
        with self._lock:
            if self._is_closed:
                channel.close()
                return
            self._channels.add(channel)
        threading.Thread(
            target=self._serve, args=(channel,), name=f"serve-{self._name}", daemon=True
        ).start()

    def close(self) -> None:
        """Give up on every client."""
        with self._lock:
            self._is_closed = True
            for channel in self._channels:
                channel.cut()

    def _serve(self, channel: Channel) -> None:
        try:
            while True:
                self._answer(channel)
        except OSError as error:  # an idle client's connection is let go, too; it comes back
            logger.debug("Store client left", extra={"peer": channel.peer, "reason": str(error)})
        finally:
            with self._lock:
                self._channels.discard(channel)
            channel.close()

    def _answer(self, channel: Channel) -> None:
        frame = channel.receive_frame(_no_tick)
        if frame.kind is not Kind.REQUEST or frame.amount > _MAX_REQUEST_BYTES:
            raise ChannelBrokenError(f"{frame.kind.name} came instead of a request")
        text = bytearray(frame.amount)
        channel.receive_payload([memoryview(text)], _no_tick)
        request = json.loads(text)
        try:
            memory, layout = self._store.open_segment(request["segment"])
        except NotFoundError as error:
            if request["op"] == "write":
                _receive(channel, [memoryview(bytearray(sum(size for _, size in request["runs"])))])
            _reply(channel, _REFUSED, [memoryview(str(error).encode())])
            return
        match request["op"]:
            case "layout":
                size = len(memory).to_bytes(_SIZE_BYTES, "little")
                _reply(channel, _FOUND, [memoryview(size), memoryview(layout)])
            case "read":
                _reply(channel, _FOUND, _runs(memory, request["runs"]))
            case _:
                _receive(channel, _runs(memory, request["runs"]))
                _reply(channel, _FOUND, [])


def _receive(channel: Channel, runs: Sequence[memoryview]) -> None:
    """Receive what a client writes."""
    frame = channel.receive_frame(_no_tick)
    if frame.kind is not Kind.DATA or frame.amount != _total(runs):
        raise ChannelBrokenError(f"{frame.kind.name} of {frame.amount} bytes came to write")
    channel.receive_payload(runs, _no_tick)


def _reply(channel: Channel, number: int, pieces: Sequence[memoryview]) -> None:
    channel.send_payload(Frame(kind=Kind.REPLY, number=number, amount=_total(pieces)), pieces)


def _runs(memory: NDArray[np.uint8], runs: Iterable[tuple[int, int]]) -> list[memoryview]:
    return [memory[offset : offset + size].data for offset, size in runs]


def _total(pieces: Iterable[memoryview]) -> int:
    return sum(map(len, pieces))


def _no_tick() -> None:
    """Do nothing while waiting."""


class NetworkStoreClient(ClosedOnExit):
    """Reads and writes segments of a store on another node; see `appliance.streams.protocol.Store`.

    Args:
        target: The store.
    """

    def __init__(self, target: Target, *, options: NetworkOptions, clock: Clock) -> None:
        self._target, self._options, self._clock = target, options, clock
        self._channel: Channel | None = None
        self._segments: dict[str, NDArray[np.uint8]] = {}
        self._layouts: dict[str, SlotLayout] = {}
        self._pause = threading.Event()
        self._lock = threading.RLock()

    def attach(self, name: str) -> NDArray[np.uint8]:
        """Return a copy of what a segment held when it was first attached."""
        with self._lock:
            if name not in self._segments:
                memory = np.empty(self.layout(name).num_bytes, dtype=np.uint8)
                self.read([Piece(segment=name, source=0, target=memory)])
                self._segments[name] = memory
            return self._segments[name]

    def attach_to_write(self, name: str) -> NDArray[np.uint8]:
        """Return zeros of a segment's size, for `write_back`."""
        with self._lock:
            if name not in self._segments:
                self._segments[name] = np.zeros(self.layout(name).num_bytes, dtype=np.uint8)
            return self._segments[name]

    def write_back(self, name: str, items: Iterable[LayoutItem]) -> None:
        """Send tensors of an attached segment to the store."""
        with self._lock:
            memory = self.attach_to_write(name)
            for item in items:
                run = memory[item.offset : item.offset + item.type.num_bytes]
                request = {"op": "write", "segment": name, "runs": [(item.offset, len(run))]}
                self._ask(request, [run.data], lambda _: [])

    def read(self, pieces: Sequence[Piece]) -> None:
        """Copy runs of bytes as they are now; one request for each segment."""
        with self._lock:
            for segment in dict.fromkeys(piece.segment for piece in pieces):
                wanted = [piece for piece in pieces if piece.segment == segment]
                targets = [piece.target.data for piece in wanted]
                runs = [(piece.source, len(piece.target)) for piece in wanted]
                request = {"op": "read", "segment": segment, "runs": runs}
                self._ask(request, None, functools.partial(_given, targets))

    def fetch(self, name: str, start: int, num_bytes: int) -> NDArray[np.uint8]:
        """Return a copy of a run of a segment's bytes as they are now."""
        memory = np.empty(num_bytes, dtype=np.uint8)
        self.read([Piece(segment=name, source=start, target=memory)])
        return memory

    def layout(self, name: str) -> SlotLayout:
        """Return a segment's layout."""
        with self._lock:
            if name not in self._layouts:
                answer = self._ask({"op": "layout", "segment": name}, None, _fresh)[0].tobytes()
                size = int.from_bytes(answer[:_SIZE_BYTES], "little")
                self._layouts[name] = parse_layout(answer[_SIZE_BYTES:], num_bytes=size)
            return self._layouts[name]

    def detach(self, name: str) -> None:
        """Forget a segment."""
        with self._lock:
            self._segments.pop(name, None)
            self._layouts.pop(name, None)

    def close(self) -> None:
        """Forget every segment and wake whoever waits for the store."""
        self._pause.set()
        if (channel := self._channel) is not None:
            channel.cut()
        with self._lock:
            self._segments.clear()
            if self._channel is not None:
                self._channel.close()

    def _ask(self, request: Message, content: list[memoryview] | None, room: Room) -> Answer:
        """Return the room that was made for the answer, filled.

        Args:
            request: What to ask.
            content: What follows to be written.
            room: Returns where to put an answer of so many bytes.
        """
        is_new = self._channel is None
        seconds = _CONNECT_SECONDS if is_new else self._options.gone_seconds
        deadline = Deadline(self._clock, seconds)
        while True:
            try:
                return self._exchange(self._connected(), request, content, room)
            except OSError as error:
                self._drop()
                is_gone = isinstance(error, NotServedError) and not is_new
                if is_gone or self._pause.is_set() or deadline.remaining_milliseconds() == 0:
                    raise StreamClosedError(
                        f"Nobody served {self._target.name!r} at {self._target.address} within "
                        f"{seconds:g} s: {error}."
                    ) from error
                logger.info("Store is asked again", extra={"reason": str(error)})
                self._pause.wait(self._options.retry_seconds)

    def _connected(self) -> Channel:
        if self._channel is None:
            self._channel, _ = dial(self._target, {}, self._options, self._clock)
        return self._channel

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _exchange(
        self, channel: Channel, request: Message, content: list[memoryview] | None, room: Room
    ) -> Answer:
        text = memoryview(json.dumps(request).encode())
        channel.send_payload(Frame(kind=Kind.REQUEST, amount=len(text)), [text])
        if content is not None:
            channel.send_payload(Frame(kind=Kind.DATA, amount=_total(content)), content)
        channel.excuse()
        frame = channel.receive_frame(_no_tick)
        if frame.kind is not Kind.REPLY:
            raise ChannelBrokenError(f"{frame.kind.name} came instead of a reply")
        targets = _fresh(frame.amount) if frame.number == _REFUSED else room(frame.amount)
        if _total(targets) != frame.amount:
            raise ChannelBrokenError(f"{frame.amount} bytes came, not {_total(targets)}")
        channel.receive_payload(targets, _no_tick)
        if frame.number == _REFUSED:
            raise NotFoundError(targets[0].tobytes().decode())
        return targets


def _fresh(num_bytes: int) -> list[memoryview]:
    return [memoryview(bytearray(num_bytes))]


def _given(targets: list[memoryview], num_bytes: int) -> list[memoryview]:
    return targets
