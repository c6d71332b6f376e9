"""Two network namespaces and a bad line between them: delay, loss, a time without any packet.

`tc netem` would do, but not every kernel has it; here a process of its own passes packets from one
tunnel device to the other, late or not at all. TCP on either side is the kernel's.
"""

import contextlib
import ctypes
import fcntl
import heapq
import multiprocessing
import os
import random
import select
import shutil
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
_MTU = 1500


@dataclass(frozen=True, kw_only=True)
class Line:
    """How bad the line is.

    Attributes:
        delay_seconds: From one side to the other.
        loss: Share of packets that are lost.
        cut_after_packets: Packets after which nothing passes for a while; None for never.
        cut_seconds: How long.
    """

    delay_seconds: float = 0.0
    loss: float = 0.0
    cut_after_packets: int | None = None
    cut_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a pod runs.

    Attributes:
        address: Address of its host.
        prefix: What to put before a command so that it runs there.
    """

    address: str
    prefix: tuple[str, ...]


@contextlib.contextmanager
def two_hosts(line):
    """Yield two places with the line between them and a counter: packets passed, lost, cut.

    Skips the test where namespaces or tunnels cannot be made.
    """
    if os.geteuid() != 0 or shutil.which("ip") is None or not Path("/dev/net/tun").exists():
        pytest.skip("network namespaces need root, `ip` and /dev/net/tun")
    names = [f"wsc-{os.getpid()}-{side}" for side in "ab"]
    places = [
        Place(address=f"10.213.{side}.1", prefix=("ip", "netns", "exec", name))
        for side, name in enumerate(names)
    ]
    with contextlib.ExitStack() as stack:
        for name in names:
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
        context = multiprocessing.get_context("spawn")
        counts = context.Array("q", 3)
        ready = context.Event()
        process = context.Process(
            target=_pass_packets, args=(names, line, counts, ready), daemon=True
        )
        process.start()
        stack.callback(process.join)
        stack.callback(process.kill)
        assert ready.wait(120), "the process between the hosts does not start"
        for side, name in enumerate(names):
            _ip("-n", name, "link", "set", "lo", "up")
            peer = places[1 - side].address
            _ip("-n", name, "addr", "add", places[side].address, "peer", peer, "dev", "line0")
            _ip("-n", name, "link", "set", "line0", "mtu", str(_MTU), "up")
        yield places, counts


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _open_tunnel(namespace):
    """Return a descriptor of a tunnel device `line0` in a namespace; changes this process's."""
    with open(f"/run/netns/{namespace}") as handle:
        assert ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), _CLONE_NEWNET) == 0
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", b"line0", _IFF_TUN | _IFF_NO_PI)
    fcntl.ioctl(descriptor, _TUNSETIFF, request)
    return descriptor


def _pass_packets(names, line, counts, ready):
    ends = [_open_tunnel(name) for name in names]
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    generator = random.Random(5)
    waiting, number, cut_until = [], 0, 0.0
    ready.set()
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select(ends, [], [], timeout)
        now = time.monotonic()
        for end in readable:
            packet = os.read(end, 65536)
            number += 1
            if number == line.cut_after_packets:
                cut_until = now + line.cut_seconds
            if now < cut_until:
                counts[2] += 1
            elif generator.random() < line.loss:
                counts[1] += 1
            else:
                counts[0] += 1
                heapq.heappush(waiting, (now + line.delay_seconds, number, other[end], packet))
        while waiting and waiting[0][0] <= now:
            _, _, target, packet = heapq.heappop(waiting)
            with contextlib.suppress(OSError):  # the device's queue is full: lost, too
                os.write(target, packet)
