"""One connection between two nodes, plain or encrypted, as one thread uses it.

Calls block, but never for longer than one tick without looking whether the peer still speaks: a
connection that has been silent for too long counts as broken. Another thread may only `interrupt`.
"""

import contextlib
import math
import os
import socket
import ssl
import struct
from collections.abc import Callable, Sequence

import xxhash

from appliance.core.clock import Clock
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.tcp_frames import (
    CHECKSUM,
    FRAME_BYTES,
    ChannelBrokenError,
    Frame,
    Kind,
    decode,
)
from appliance.streams.segment import Extent

_TLS_PIECE_BYTES = 1 << 18
_CHECKSUM_OF_NOTHING = xxhash.xxh3_64_intdigest(b"")
_FRAMES = 64
"""Frames that are taken in at once."""

Tick = Callable[[], None]
"""Called about once a second while a call waits; may send, may raise."""


class Channel:
    """A connection; see `open_channel`.

    Args:
        connection: Connected, through its handshake.
        peer: Who is there, for error messages.
        options: Chunk size and times.
    """

    def __init__(
        self, connection: socket.socket, *, peer: str, options: NetworkOptions, clock: Clock
    ) -> None:
        self.peer = peer
        self._connection, self._options, self._clock = connection, options, clock
        self._partial = bytearray()
        self._heard = self._spoke = clock.monotonic_seconds()
        self.num_bytes_sent = 0
        self._prepare()

    def fileno(self) -> int:
        """Return the descriptor to poll for arriving frames."""
        return self._connection.fileno()

    @property
    def has_unread(self) -> bool:
        """Whether bytes have arrived that a `poll` would not tell of."""
        return False

    def send_frame(self, frame: Frame) -> None:
        """Send a frame without payload."""
        self._send(memoryview(frame.encode()), more=False)

    def send_payload(self, frame: Frame, pieces: Sequence[memoryview]) -> None:
        """Send a frame, the pieces of its payload and their checksum."""
        self._send(memoryview(frame.encode()), more=True)
        checksum = xxhash.xxh3_64()
        size = self._options.block_bytes
        for piece in pieces:
            for start in range(0, len(piece), size):
                block = piece[start : start + size]
                checksum.update(block)
                self._send(block, more=True)
        self._send(memoryview(CHECKSUM.pack(checksum.intdigest())), more=False)

    def send_extent(self, frame: Frame, extent: Extent, checksum: int | None = None) -> None:
        """Send a frame, bytes of a segment as its payload, and their checksum.

        The kernel sends from the segment's own pages, so the bytes must stay as they are until the
        peer says that it has them.

        Args:
            extent: The payload.
            checksum: Its checksum, if it is known.
        """
        if not extent.view:
            self._send(memoryview(frame.encode() + CHECKSUM.pack(_CHECKSUM_OF_NOTHING)), more=False)
            return
        self._send(memoryview(frame.encode()), more=True)
        running = xxhash.xxh3_64()
        size = self._options.block_bytes
        for start in range(0, len(extent.view), size):
            block = extent.view[start : start + size]
            if checksum is None:
                running.update(block)
            self._send_from(extent.descriptor, extent.offset + start, len(block))
        known = running.intdigest() if checksum is None else checksum
        self._send(memoryview(CHECKSUM.pack(known)), more=False)

    def receive_frame(self, tick: Tick) -> Frame:
        """Return the next frame; pings are passed over."""
        while True:
            frame = self._next_frame(tick)
            if frame.kind is not Kind.PING:
                return frame

    def receive_frames_now(self) -> list[Frame]:
        """Return the frames that have arrived, none of which may have a payload.

        Pings are passed over. What a call leaves, a `poll` or `has_unread` still tells of.
        """
        buffer = bytearray(_FRAMES * FRAME_BYTES)
        count = self._receive_now(memoryview(buffer))
        if count:
            self._heard = self._clock.monotonic_seconds()
        data = self._partial + buffer[:count]
        num_whole = len(data) // FRAME_BYTES * FRAME_BYTES
        self._partial = data[num_whole:]
        frames = (
            decode(bytes(data[start : start + FRAME_BYTES]))
            for start in range(0, num_whole, FRAME_BYTES)
        )
        return [frame for frame in frames if frame.kind is not Kind.PING]

    def receive_payload(self, targets: Sequence[memoryview], tick: Tick) -> None:
        """Receive the payload of the frame that was received last, straight into its place.

        Raises:
            ChannelBrokenError: What arrived is not what was sent.
        """
        checksum = xxhash.xxh3_64()
        size = self._options.chunk_bytes
        for target in targets:
            for start in range(0, len(target), size):
                chunk = target[start : start + size]
                self._receive(chunk, tick)
                checksum.update(chunk)
        wanted = bytearray(CHECKSUM.size)
        self._receive(memoryview(wanted), tick)
        if bytes(wanted) != CHECKSUM.pack(checksum.intdigest()):
            raise ChannelBrokenError(
                f"{sum(map(len, targets))} bytes arrived damaged: their checksum is "
                f"{checksum.hexdigest()}, not {wanted[::-1].hex()}"
            )

    def ping(self) -> None:
        """Say that this end lives, if it has said nothing for a while."""
        if self._clock.monotonic_seconds() - self._spoke >= self._options.ping_seconds:
            self.send_frame(Frame(kind=Kind.PING))

    def check(self) -> None:
        """Check that the peer has not been silent for too long.

        Raises:
            ChannelBrokenError: It has.
        """
        silence = self._clock.monotonic_seconds() - self._heard
        if silence > self._options.silence_seconds:
            raise ChannelBrokenError(f"nothing arrived for {silence:.1f} s")

    def excuse(self) -> None:
        """Restart the measurement of silence, after a time in which this end did not read."""
        self._heard = self._clock.monotonic_seconds()

    def linger(self) -> None:
        """Wait until the peer has read everything and closed its end, but not for long.

        Closing with unread pings would reset the connection, and the kernel might then throw away
        what the peer has not read yet.
        """
        waste = memoryview(bytearray(FRAME_BYTES))
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
            while True:
                if self._receive_some(waste) == 0:
                    self.check()

    def interrupt(self) -> None:
        """Make whatever call is waiting to receive fail; any thread may call it."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)

    def cut(self) -> None:
        """Make every call fail; any thread may call it."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def hand_over(self) -> socket.socket:
        """Return the connection for other uses; the channel can no longer be used."""
        return self._connection

    def _next_frame(self, tick: Tick) -> Frame:
        data = bytearray(FRAME_BYTES)
        taken = len(self._partial)
        data[:taken] = self._partial
        self._receive(memoryview(data)[taken:], tick)
        self._partial.clear()
        return decode(bytes(data))

    def _send(self, data: memoryview, *, more: bool) -> None:
        self._send_all(len(data), lambda start: self._send_some(data[start:], more=more))

    def _send_from(self, descriptor: int, offset: int, num_bytes: int) -> None:
        """Send bytes of a file."""

        def send_some(start: int) -> int:
            return self._send_file(descriptor, offset + start, num_bytes - start)

        self._send_all(num_bytes, send_some)

    def _send_all(self, num_bytes: int, send_some: Callable[[int], int]) -> None:
        """Have a number of bytes sent, from where it goes on each time; returned is how many."""
        start, stalled_at = 0, None
        while start < num_bytes:
            count = send_some(start)
            now = self._clock.monotonic_seconds()
            if count == 0:
                stalled_at = now if stalled_at is None else stalled_at
                if now - stalled_at > self._options.silence_seconds:
                    raise ChannelBrokenError(f"nothing could be sent for {now - stalled_at:.1f} s")
                continue
            stalled_at, self._spoke = None, now
            self.num_bytes_sent += count
            start += count

    def _receive(self, target: memoryview, tick: Tick) -> None:
        missing = len(target)
        while missing:
            count = self._receive_some(target[-missing:])
            if count == 0:
                self.check()
                tick()
                continue
            self._heard = self._clock.monotonic_seconds()
            missing -= count

    # What differs between a plain and an encrypted connection

    def _prepare(self) -> None:
        """Let the kernel end each blocking call after a tick."""
        seconds = self._options.ping_seconds
        whole = math.floor(seconds)
        limit = struct.pack("@ll", whole, round(1e6 * (seconds - whole)))
        self._connection.settimeout(None)
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def _send_some(self, data: memoryview, *, more: bool) -> int:
        flags = socket.MSG_NOSIGNAL | (socket.MSG_MORE if more else 0)
        try:
            return self._connection.send(data, flags)
        except BlockingIOError:
            return 0

    def _send_file(self, descriptor: int, offset: int, num_bytes: int) -> int:
        try:
            return os.sendfile(self._connection.fileno(), descriptor, offset, num_bytes)
        except BlockingIOError:
            return 0

    def _receive_some(self, target: memoryview) -> int:
        try:
            count = self._connection.recv_into(target, len(target), socket.MSG_WAITALL)
        except BlockingIOError:
            return 0
        return _arrived(count)

    def _receive_now(self, target: memoryview) -> int:
        try:
            count = self._connection.recv_into(target, len(target), socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        return _arrived(count)


class TlsChannel(Channel):
    """An encrypted connection: the library hides the socket, so waiting goes through it."""

    _connection: ssl.SSLSocket

    @property
    def has_unread(self) -> bool:
        """Whether decrypted bytes wait in the library."""
        return self._connection.pending() > 0

    def send_extent(self, frame: Frame, extent: Extent, checksum: int | None = None) -> None:
        """Send a frame, bytes of a segment as its payload, and their checksum."""
        self.send_payload(frame, [extent.view])

    def _prepare(self) -> None:
        self._connection.settimeout(self._options.ping_seconds)

    def _send_some(self, data: memoryview, *, more: bool) -> int:
        # The library sends all that it is given or, as far as it says, nothing: a large block would
        # look stalled on a slow link. Asked again it has to get the same piece again.
        try:
            return self._connection.send(data[:_TLS_PIECE_BYTES])
        except TimeoutError:
            return 0

    def _receive_some(self, target: memoryview) -> int:
        try:
            count = self._connection.recv_into(target)
        except TimeoutError:
            return 0
        return _arrived(count)

    def _receive_now(self, target: memoryview) -> int:
        self._connection.settimeout(0.0)
        try:
            count = self._connection.recv_into(target)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        finally:
            self._connection.settimeout(self._options.ping_seconds)
        return _arrived(count)


def open_channel(
    connection: socket.socket, *, peer: str, options: NetworkOptions, clock: Clock
) -> Channel:
    """Return the channel over a connection that is through its handshake."""
    kind = TlsChannel if isinstance(connection, ssl.SSLSocket) else Channel
    return kind(connection, peer=peer, options=options, clock=clock)


def _arrived(count: int) -> int:
    if count == 0:
        raise ChannelBrokenError("the other end closed the connection")
    return count
