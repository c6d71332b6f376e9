"""Keeps the ports of coordinators from others, for a while after a coordinator has ended.

A client that has lost its coordinator calls again, at the same port of this machine. Without TLS it
would believe whoever listens there by then, and any user of the machine could. So management binds
the port as well, as soon as the coordinator has registered it, and does not listen: Linux lets
sockets of one user share a port that all of them offer to share (`SO_REUSEPORT`, socket(7)), and
gives connections to the one that listens; once that is gone, the caller is refused.

With TLS nobody else has the coordinator's key, so nothing is kept. Without it no coordinator may be
on another machine.
"""

import contextlib
import logging
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from threading import Lock

from appliance.core.addresses import is_loopback, split_address
from appliance.core.clock import Clock
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import UserError
from appliance.core.ids import JobId
from appliance.wire.connection_owner import is_own_address
from appliance.wire.connections.client_ports import share_port
from appliance.wire.networks import address_of

logger = logging.getLogger(__name__)

KEPT_SECONDS = 600.0
"""Longer than clients try to reach a coordinator again that has ended."""
NUM_KEPT = 64
"""Ports of ended jobs of one user at most, so that nobody's short jobs end others' keeping."""

_Sockets = Sequence[socket.socket]


class HeldPorts:
    """Holds ports; for any thread.

    Args:
        clock: Says how long.
        is_needed: Whether clients believe whoever listens: there is no TLS.
    """

    def __init__(self, clock: Clock, *, is_needed: bool) -> None:
        self._clock, self._is_needed = clock, is_needed
        self._lock = Lock()
        self._held: dict[JobId, tuple[int, _Sockets]] = {}
        self._kept: dict[int, deque[tuple[float, _Sockets]]] = {}

    def check_safe(self, address: str) -> None:
        """Refuse an address of another machine at which clients would believe whoever listens.

        No port is held there once a coordinator has died, and what clients send can be read on the
        way, the job's authority first.

        Args:
            address: host:port that clients are to be sent to.

        Raises:
            UserError: That is so.
        """
        host, _ = split_address(address)
        is_here = is_loopback(host) or (address_of(host) is not None and is_own_address(host))
        if self._is_needed and not is_here:
            raise UserError(
                f"Clients would speak to {host} in plain text, and believe whoever listens there.",
                hint="Start the appliance with --tls.",
            )

    def recall(self, jobs: Iterable[JobRecord]) -> None:
        """Hold the ports of jobs that an earlier management has left."""
        for job in jobs:
            self.hold(job)

    def hold(self, job: JobRecord) -> None:
        """Hold the port of a job whose coordinator listens on this machine."""
        if not (self._is_needed and job.service_address):
            return
        host, port = split_address(job.service_address)
        if host != "localhost":
            return
        try:
            sockets = share_port(port)
        except OSError as error:  # an earlier version's coordinator does not share it
            logger.warning(
                "The port of a coordinator is not held", extra={"job": job.id, "error": str(error)}
            )
            return
        with self._lock:
            self._end(job.id)
            self._held[job.id] = (job.user.uid, sockets)

    def job_ended(self, job: JobId) -> None:
        """Keep the port of a job that has ended for some time yet."""
        with self._lock:
            self._end(job)

    def close(self) -> None:
        """Let go of all ports."""
        with self._lock:
            for job in list(self._held):
                self._end(job)
            for kept in self._kept.values():
                while kept:
                    _let_go(kept.popleft()[1])

    def _end(self, job: JobId) -> None:
        now = self._clock.monotonic_seconds()
        if (held := self._held.pop(job, None)) is not None:
            uid, sockets = held
            self._kept.setdefault(uid, deque()).append((now + KEPT_SECONDS, sockets))
        for uid, kept in list(self._kept.items()):
            while kept and (len(kept) > NUM_KEPT or kept[0][0] <= now):
                _let_go(kept.popleft()[1])
            if not kept:
                del self._kept[uid]


def _let_go(sockets: _Sockets) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.close()
