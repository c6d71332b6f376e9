"""Takes over the ports of a predecessor that ended without an orderly stop.

Clients, pods on other nodes and agents know a management by host:port and go on calling there. With
`--port 0` the kernel chooses; so the successor of a management that was killed, or that restarted
itself, takes the same ports. An orderly stop ends every job and forgets them.

The ports are tried before anything of the appliance is touched: a start that cannot have them must
not affect the pods of running jobs.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace

from appliance.core.clock import Clock
from appliance.core.errors import ClusterError
from appliance.wire.connections.client_ports import bind_for_clients

_AGAIN_SECONDS = 0.1
FREE_SECONDS = 10.0
"""How long a kept port may take to become free: a killed process's sockets are closed a moment
after its end, and a client's own connection may hold the port of a server that is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where a management listens.

    Attributes:
        port: For clients; 0 stands for any free one, here and below.
        inner_port: For pods on other nodes.
        node_port: For agents.
    """

    port: int = 0
    rest_port: int = 0
    inner_port: int = 0
    node_port: int = 0

    @classmethod
    def at(cls, port: int, *, inner: str, node: str) -> "Ports":
        """Return the ports of a management, of which some are known as host:port or not there."""
        inner_port, node_port = (int(text.rpartition(":")[2] or 0) for text in (inner, node))
        return cls(port=port, inner_port=inner_port, node_port=node_port)

    def with_kept(self, kept: "Ports") -> "Ports":
        """Return these ports, and where they say any free one, those of a predecessor."""
        names = [field.name for field in fields(self) if not getattr(self, field.name)]
        return replace(self, **{name: getattr(kept, name) for name in names})

    def numbers(self) -> Iterator[tuple[str, int]]:
        """Yield the command-line option and the number of each port that is not chosen freely."""
        for field in fields(self):
            if number := getattr(self, field.name):
                yield f"--{field.name.replace('_', '-')}", number


def await_free(host: str, asked: Ports, kept: Ports, *, data_dir: str, clock: Clock) -> None:
    """Wait until the ports of clients and of REST can be listened at.

    Args:
        host: Address to listen at.
        asked: The ports that the command line names.
        kept: The predecessor's ports; nothing where it had none.
        data_dir: The data directory, for the error.
        clock: Times the wait.

    Raises:
        ClusterError: Another program has one of them.
    """
    known = dict(kept.numbers())
    for option, number in asked.with_kept(kept).numbers():
        if option not in ("--port", "--rest-port"):
            continue  # those are listened at on other addresses
        committed = known.get(option) == number
        reason = _reason(host, number, clock, seconds=FREE_SECONDS if committed else 0.0)
        if not reason:
            continue
        if committed:
            raise _kept_is_taken(host, number, reason, data_dir)
        raise ClusterError(
            f"Port {number} at {host} cannot be used: {reason}.",
            hint=f"Choose another one with {option}.",
        )


def _kept_is_taken(host: str, number: int, reason: str, data_dir: str) -> ClusterError:
    return ClusterError(
        f"Port {number} at {host}, where the clients of this appliance call, cannot be used: "
        f"{reason}, for {FREE_SECONDS:g} seconds.",
        hint=f"End the program that listens there (`ss -ltnp sport = :{number}` names it) and "
        "start the appliance again soon, as its jobs wait for it. Or end them with "
        f"`appliance down --data-dir {data_dir}`; with --port 0 the next start takes another port.",
    )


def _reason(host: str, number: int, clock: Clock, *, seconds: float) -> str:
    """Return why a port cannot be listened at, after so long; empty if it can."""
    deadline = clock.monotonic_seconds() + seconds
    pause = threading.Event()
    while (reason := _try(host, number)) and clock.monotonic_seconds() < deadline:
        pause.wait(_AGAIN_SECONDS)
    return reason


def _try(host: str, number: int) -> str:
    with ExitStack() as probes:
        try:
            for probe in bind_for_clients(host, number):
                probes.enter_context(probe).listen()
        except OSError as error:
            return error.strerror or str(error)
    return ""
