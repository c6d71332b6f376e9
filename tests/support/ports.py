"""Ports that a test chooses before anybody listens at them.

A port that the kernel hands out for port 0 and that is closed again can be anybody's a moment
later: every client's end of a connection takes one of the same range. Those given out here lie
outside that range, and a lock says which of them another test process has been given.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 10_000
"""Below it are the ports that programs choose by themselves."""
_locks: list[int] = []
"""Descriptors of the locks, which are this process's until it ends."""


def free_port() -> int:
    """Return a port of loopback that nobody listens at, and that is this process's from now on."""
    ports = _outside(_EPHEMERAL.read_text())
    random.Random(os.getpid()).shuffle(ports)
    for port in ports:
        if _lock(port):
            return port
    raise AssertionError(f"none of {len(ports)} ports is free")


def free_ports(count: int) -> list[int]:
    """Return so many of them."""
    return [free_port() for _ in range(count)]


def _outside(ephemeral: str) -> list[int]:
    """Return the ports that the kernel does not hand out; all of them if it hands out every one."""
    low, high = map(int, ephemeral.split())
    found = [*range(_FIRST, low), *range(max(high + 1, _FIRST), 1 << 16)]
    return found or [*range(_FIRST, 1 << 16)]


def _lock(port: int) -> bool:
    directory = Path(tempfile.gettempdir()) / f"wsc-test-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    lock = os.open(directory / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:  # another test process has it, or somebody else listens there
        os.close(lock)
        return False
    _locks.append(lock)
    return True
