"""Shared-memory ring between two processes: doorbells per second, bytes per second, memcpy beside.

    python -m benchmarks.streams [--rounds 7] [--messages 5000]

Every figure is the median of several rounds; the ring's rounds and the plain copies alternate, so
that both see the same noise.
"""

import argparse
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from appliance.streams.shared_memory import connect_ring, serve_ring

SECONDS = 60.0
NUM_SLOTS = 3
MEGABYTE = 1_000_000


def read(address: str) -> None:
    """Read a ring to its end, touching nothing."""
    with connect_ring(address, name="bench", timeout_seconds=SECONDS) as reader:
        while reader.acquire() is not None:
            reader.release()


def copy_seconds(source: np.ndarray, target: np.ndarray, repeats: int) -> float:
    """Return the seconds of one plain copy."""
    began = time.perf_counter()
    for _ in range(repeats):
        np.copyto(target, source)
    return (time.perf_counter() - began) / repeats


def ring_seconds(source: np.ndarray, repeats: int, num_readers: int) -> float:
    """Return the seconds of one message of a ring whose writer copies `source` into each slot."""
    with tempfile.TemporaryDirectory() as directory:
        address = str(Path(directory) / "bench.stream")
        with serve_ring(
            address,
            name="bench",
            num_slots=NUM_SLOTS,
            slot_bytes=source.size,
            num_readers=num_readers,
        ) as writer:
            context = multiprocessing.get_context("spawn")
            readers = [context.Process(target=read, args=(address,)) for _ in range(num_readers)]
            for reader in readers:
                reader.start()
            for _ in range(2 * NUM_SLOTS):
                np.copyto(writer.reserve(SECONDS), source)
                writer.publish()
            began = time.perf_counter()
            for _ in range(repeats):
                np.copyto(writer.reserve(SECONDS), source)
                writer.publish()
            seconds = (time.perf_counter() - began) / repeats
            writer.end()
            for reader in readers:
                reader.join()
    return seconds


def main() -> None:
    """Print one line for each size and number of readers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--messages", type=int, default=5000, help="most of a round")
    options = parser.parse_args()
    print(f"{'bytes':>10} {'readers':>7} {'us':>9} {'GB/s':>7} {'memcpy us':>10} {'ratio':>6}")
    for size in (0, 4096, MEGABYTE, 16 * MEGABYTE, 64 * MEGABYTE):
        repeats = min(options.messages, max(20, 2_000_000_000 // (size + 100_000)))
        source = np.ones(size, dtype=np.uint8)
        target = np.zeros((NUM_SLOTS, size), dtype=np.uint8)
        for num_readers in (1, 2):
            plain, ring = [], []
            for _ in range(options.rounds):
                plain.append(copy_seconds(source, target[0], repeats) if size else 0.0)
                ring.append(ring_seconds(source, repeats, num_readers))
            a, b = statistics.median(ring), statistics.median(plain)
            print(
                f"{size:>10} {num_readers:>7} {1e6 * a:>9.1f} {size / a / 1e9:>7.2f} "
                f"{1e6 * b:>10.1f} {b / a:>6.2f}"
            )


if __name__ == "__main__":
    main()
