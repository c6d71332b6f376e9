"""Streams between hosts against raw TCP: `python -m benchmarks.network_streams`.

The same bytes go from one process to another by the network transport (ring, sender, receiver,
ring) and by `sendall` and `recv_into` between two such rings' memory, in turns; every bar is the
median of the paired ratios. Raw TCP is what any program gets: sockets as the system sets them up.
Beside it goes, without a bar, raw TCP with the transport's own settings, which differs where the
system's congestion control is another. The first two bars use loopback, one for each direction; the
others two network namespaces joined by a veth pair (root only; skipped with a line that says so).
Prints one line per bar (`name value bar ok|MISSED`); exits 1 if one is missed.
"""

import argparse
import contextlib
import ctypes
import functools
import multiprocessing
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from appliance.core.clock import SystemClock
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.receiver import Receiver, Target
from appliance.streams.network.sender import RingService
from appliance.streams.network.server import NetworkServer, connect, prepare
from appliance.streams.segment import create_segment, map_segment
from appliance.streams.shared_memory import local_ring, serve_ring

NUM_SLOTS = 3
BAR = 0.9
SECONDS = 60.0
_CLONE_NEWNET = 0x40000000
_CLOCK = SystemClock()


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is carried in one round.

    Attributes:
        slot_bytes: Bytes of a message.
        num_messages: How many.
        hosts: Addresses of the first and the second process.
        namespaces: Their network namespaces; empty for this one.
    """

    slot_bytes: int
    num_messages: int
    hosts: tuple[str, str] = ("127.0.0.1", "127.0.0.1")
    namespaces: tuple[str, str] = ("", "")

    @property
    def num_bytes(self) -> int:
        """Bytes of all messages."""
        return self.slot_bytes * self.num_messages


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What one round took: GB/s, and the CPU seconds of both processes for each GB."""

    gigabytes_per_second: float
    cpu_seconds_per_gigabyte: float


def slots(work: Work) -> list[NDArray[np.uint8]]:
    """Return memory like that of a ring, every page touched."""
    found = []
    for _ in range(NUM_SLOTS):
        descriptor = create_segment("bench", work.slot_bytes)
        found.append(map_segment(descriptor))
        os.close(descriptor)
        found[-1][:] = 1
    return found


def write_network(work: Work, host: str, line: Connection) -> float:
    """Write every message into a ring with a remote reader; return the seconds."""
    options = NetworkOptions(host=host)
    with tempfile.TemporaryDirectory() as directory:
        server = NetworkServer(options, owner="writer", clock=_CLOCK)
        ring = serve_ring(
            str(Path(directory) / "bench.stream"),
            name="bench",
            num_slots=NUM_SLOTS,
            slot_bytes=work.slot_bytes,
            num_readers=1,
        )
        service = RingService(ring, name="bench", options=options, clock=_CLOCK, on_failure=print)
        server.offer("bench", service)
        line.send(server.address)
        for _ in range(NUM_SLOTS):
            ring.reserve(SECONDS)[:] = 1
            ring.publish()
        line.recv()
        began = time.perf_counter()
        for _ in range(work.num_messages):
            ring.reserve(SECONDS)
            ring.publish()
        line.recv()
        seconds = time.perf_counter() - began
        ring.end()
        service.join(SECONDS)
        ring.close()
        server.close()
    return seconds


def read_network(work: Work, line: Connection) -> None:
    """Read every message from a local ring that a bridge fills."""
    target = Target(name="bench", address=line.recv(), label="reader")
    receiver = Receiver(target, options=NetworkOptions(), clock=_CLOCK)
    receiver.connect(SECONDS)
    writer, reader = local_ring(
        name="bench",
        num_slots=NUM_SLOTS,
        slot_bytes=work.slot_bytes,
        owner="writer",
        reader="reader",
        clock=_CLOCK,
        on_close=receiver.close,
    )
    receiver.start(writer, print)
    with reader:
        for count in (NUM_SLOTS, work.num_messages):
            for _ in range(count):
                reader.acquire(SECONDS)
                reader.release()
            line.send("done")
        reader.acquire(SECONDS)


def write_raw(settings: NetworkOptions | None, work: Work, host: str, line: Connection) -> float:
    """Send every message over a socket, set up by the system or as said; return the seconds."""
    with socket.socket() as listener:
        if settings is not None:
            prepare(listener, settings)
        listener.bind((host, 0))
        listener.listen()
        line.send(listener.getsockname())
        connection, _ = listener.accept()
    memory = slots(work)
    with connection:
        for number in range(NUM_SLOTS):
            connection.sendall(memory[number].data)
        line.recv()
        began = time.perf_counter()
        for number in range(work.num_messages):
            connection.sendall(memory[number % NUM_SLOTS].data)
        line.recv()
        return time.perf_counter() - began


def read_raw(settings: NetworkOptions | None, work: Work, line: Connection) -> None:
    """Receive every message from a socket, set up by the system or as said."""
    memory = slots(work)
    host, port = line.recv()
    if settings is None:
        make = socket.create_connection((host, port))
    else:
        make = connect(host, port, settings)
    with make as connection:
        connection.settimeout(None)
        for count in (NUM_SLOTS, work.num_messages):
            for number in range(count):
                view = memory[number % NUM_SLOTS].data
                while view:
                    view = view[connection.recv_into(view) :]
            line.send("done")


def _raw(settings: NetworkOptions | None) -> tuple[Callable[..., float], Callable[..., None]]:
    return functools.partial(write_raw, settings), functools.partial(read_raw, settings)


WAYS: dict[str, tuple[Callable[..., float], Callable[..., None]]] = {
    "network": (write_network, read_network),
    "raw": _raw(None),
    "raw-as-ours": _raw(NetworkOptions()),
}


def play(work: Work, side: int, line: Connection) -> None:
    """Be one of the two processes: do as told until told to end."""
    if work.namespaces[side]:
        with Path("/run/netns", work.namespaces[side]).open() as handle:
            if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
    while (command := line.recv()) is not None:
        way, is_writer, peer = command
        before = _cpu_seconds()
        seconds = 0.0
        if is_writer:
            seconds = WAYS[way][0](work, work.hosts[side], peer)
        else:
            WAYS[way][1](work, peer)
        line.send((seconds, _cpu_seconds() - before))


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Pair:
    """Two processes that carry bytes between them.

    Args:
        work: What they carry.
    """

    def __init__(self, work: Work) -> None:
        context = multiprocessing.get_context("spawn")
        self._work = work
        self._lines: list[Connection] = []
        self._processes = []
        for side in range(2):
            ours, theirs = context.Pipe()
            process = context.Process(target=play, args=(work, side, theirs), daemon=True)
            process.start()
            theirs.close()
            self._lines.append(ours)
            self._processes.append(process)

    def run(self, way: str, writer: int) -> Figure:
        """Carry all messages once."""
        ends = multiprocessing.get_context("spawn").Pipe()
        for side, line in enumerate(self._lines):
            line.send((way, side == writer, ends[side]))
        answers = [line.recv() for line in self._lines]
        for end in ends:
            end.close()
        gigabytes = self._work.num_bytes / 1e9
        return Figure(
            gigabytes_per_second=gigabytes / answers[writer][0],
            cpu_seconds_per_gigabyte=sum(cpu for _, cpu in answers) / gigabytes,
        )

    def close(self) -> None:
        """End both processes."""
        for line in self._lines:
            line.send(None)
        for process in self._processes:
            process.join()


def measure(name: str, work: Work, *, rounds: int) -> bool:
    """Print a row for people and the bar for each direction; return whether both are met."""
    pair = Pair(work)
    is_met = True
    try:
        for writer, direction in enumerate(("there", "back")):
            found: dict[str, list[Figure]] = {way: [] for way in WAYS}
            for way in WAYS:
                pair.run(way, writer)
            for _ in range(rounds):
                for way in WAYS:
                    found[way].append(pair.run(way, writer))
            ratios = {
                way: statistics.median(
                    ours.gigabytes_per_second / raw.gigabytes_per_second
                    for ours, raw in zip(found["network"], figures, strict=True)
                )
                for way, figures in found.items()
            }
            ratio = ratios["raw"]
            for way, figures in found.items():
                speed = statistics.median(figure.gigabytes_per_second for figure in figures)
                cpu = statistics.median(figure.cpu_seconds_per_gigabyte for figure in figures)
                print(
                    f"  {name} {direction} {way:<12} {speed:6.2f} GB/s {cpu:6.3f} CPU s/GB, "
                    f"ours over it {ratios[way]:.3f}"
                )
            verdict = "ok" if ratio >= BAR else "MISSED"
            is_met = is_met and ratio >= BAR
            print(
                f"network_{name}_{direction}_to_raw_tcp {ratio:.3f} >={BAR} {verdict}", flush=True
            )
    finally:
        pair.close()
    return is_met


@contextlib.contextmanager
def two_namespaces() -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Yield the names and addresses of two namespaces joined by a veth pair."""
    names = (f"wsc-bench-{os.getpid()}-a", f"wsc-bench-{os.getpid()}-b")
    hosts = ("10.214.0.1", "10.214.0.2")
    with contextlib.ExitStack() as stack:
        for name in names:
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
        _ip("-n", names[0], "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
        _ip("-n", names[0], "link", "set", "veth1", "netns", names[1])
        for side, name in enumerate(names):
            _ip("-n", name, "addr", "add", f"{hosts[side]}/24", "dev", f"veth{side}")
            _ip("-n", name, "link", "set", f"veth{side}", "up")
        yield names, hosts


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=16, help="size of a message")
    parser.add_argument("--messages", type=int, default=120, help="messages of a round")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    size = {"slot_bytes": options.megabytes * 1_000_000, "num_messages": options.messages}
    is_met = measure("loopback", Work(**size), rounds=options.rounds)
    if os.geteuid() == 0 and shutil.which("ip"):
        with two_namespaces() as (names, hosts):
            work = Work(**size, namespaces=names, hosts=hosts)
            is_met = measure("namespaces", work, rounds=options.rounds) and is_met
    else:
        print("network_namespaces_to_raw_tcp not measured: needs root and `ip`")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
