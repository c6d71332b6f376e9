"""Unix-socket connections that carry tiny messages, and how to wait on them.

Every connection is SOCK_SEQPACKET: one send is one message, order is kept, and the death of the
other process, however sudden, is an end of file here. Waiting is a `poll` over connections and a
*bell*, an eventfd that another thread of this process rings to say "look up": so `close` wakes
whoever waits.
"""

import errno
import math
import os
import select
import socket
import threading
from pathlib import Path

from appliance.core.clock import Clock
from appliance.core.errors import StreamClosedError

_RETRY_SECONDS = 0.005
_BACKLOG = 64


class Bell:
    """An eventfd that wakes a thread waiting in `poll`."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """Return the descriptor to poll for readability."""
        return self._descriptor

    def ring(self) -> None:
        """Make the descriptor readable."""
        os.eventfd_write(self._descriptor, 1)

    def quiet(self) -> None:
        """Make the descriptor unreadable until the next `ring`."""
        try:
            os.eventfd_read(self._descriptor)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Free the descriptor."""
        os.close(self._descriptor)


class Deadline:
    """A point in time that a blocking call must not pass.

    Args:
        clock: Source of monotonic time.
        seconds: From now; None means never.
    """

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock = clock
        self._end = None if seconds is None else clock.monotonic_seconds() + seconds

    def remaining_milliseconds(self) -> int | None:
        """Return what is left as `poll` wants it, 0 when it has passed, None for never."""
        if self._end is None:
            return None
        return max(0, math.ceil(1000 * (self._end - self._clock.monotonic_seconds())))


def listen(address: str) -> socket.socket:
    """Return a socket that listens at a path in the file system."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
        # `poll` may report a connection that is gone again by the time of `accept`.
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def unlink_socket(address: str) -> None:
    """Remove a listening socket's file; no error if it is gone already."""
    Path(address).unlink(missing_ok=True)


def connect(address: str, *, what: str, timeout_seconds: float, clock: Clock) -> socket.socket:
    """Connect to a listening socket, waiting for it to appear.

    Args:
        address: Path of the socket.
        what: What is there, for the error message.
        timeout_seconds: How long to go on trying.

    Raises:
        StreamClosedError: Nobody listened in time.
    """
    deadline = Deadline(clock, timeout_seconds)
    pause = threading.Event()
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError, BlockingIOError) as error:
            connection.close()
            if deadline.remaining_milliseconds() == 0:
                raise StreamClosedError(
                    f"Nobody served {what} at {address} within {timeout_seconds:g} s."
                ) from error
            pause.wait(_RETRY_SECONDS)
        except OSError:
            connection.close()
            raise
        else:
            return connection


def receive(connection: socket.socket, max_bytes: int) -> bytes | None:
    """Return the next message without waiting: None when there is none yet, empty at the end.

    A peer that closes with unread messages makes the kernel report one connection reset *before*
    the messages that it had sent, so a reset is read over once.
    """
    for _ in range(2):
        try:
            return connection.recv(max_bytes, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            continue
    return b""


def send(connection: socket.socket, message: bytes) -> bool:
    """Send a message; return False if the peer is gone."""
    try:
        connection.send(message, socket.MSG_NOSIGNAL)
    except (BrokenPipeError, ConnectionResetError):
        return False
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            return False
        raise
    return True


def wait_readable(connection: socket.socket, bell: Bell, deadline: Deadline) -> bool:
    """Wait for a connection or the bell; return False when the deadline passed first."""
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    poller.register(bell, select.POLLIN)
    return bool(poller.poll(deadline.remaining_milliseconds()))
