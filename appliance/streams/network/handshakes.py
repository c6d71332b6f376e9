"""How many clients of a listener may be about to prove themselves, and for how long.

Each has a thread, before anybody knows who it is. A limit of time for each byte that it sends would
let it send one now and then, and a limit of their number alone would let strangers keep out pods.
So whoever takes too long is hung up on once others come, and where there are too many, the oldest
of the address that has most of them.
"""

import contextlib
import itertools
import socket
from collections import Counter
from dataclasses import dataclass
from threading import Lock

from appliance.core.clock import Clock

MOST = 512
"""More pods than connect to one listener at a time, even of a large gang."""


@dataclass(frozen=True, slots=True)
class _Handshake:
    host: str
    since_seconds: float
    connection: socket.socket
    """A second descriptor: encryption takes the first one away."""


class Handshakes:
    """Those of one listener; for any thread.

    Args:
        clock: Says how long they last.
        seconds: How long one may last; a longer one is ended when another begins.
        most: How many there may be.
    """

    def __init__(self, clock: Clock, *, seconds: float, most: int = MOST) -> None:
        self._clock, self._seconds, self._most = clock, seconds, most
        self._lock = Lock()
        self._numbers = itertools.count()
        self._open: dict[int, _Handshake] = {}

    def begin(self, connection: socket.socket, host: str) -> int:
        """Count a client that was accepted; return what to give to `end`.

        Args:
            host: Its address.

        Raises:
            OSError: There is no descriptor left.
        """
        now = self._clock.monotonic_seconds()
        begun = _Handshake(host, now, connection.dup())
        with self._lock:
            for each in self._open.values():  # oldest first
                if now - each.since_seconds <= self._seconds:
                    break
                _hang_up(each)
            if len(self._open) >= self._most:
                self._end_one()
            number = next(self._numbers)
            self._open[number] = begun
        return number

    def end(self, number: int) -> None:
        """Count a client no more: it has proved itself, or is gone."""
        with self._lock:
            ended = self._open.pop(number, None)
        if ended is not None:
            ended.connection.close()

    def _end_one(self) -> None:
        ((host, _),) = Counter(each.host for each in self._open.values()).most_common(1)
        number = next(number for number, each in self._open.items() if each.host == host)
        oldest = self._open.pop(number)
        _hang_up(oldest)
        oldest.connection.close()


def _hang_up(handshake: _Handshake) -> None:
    with contextlib.suppress(OSError):  # it has ended already
        handshake.connection.shutdown(socket.SHUT_RDWR)
