"""What is found of tensors that a disk has changed, and when they are compared."""

import mmap
import os
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from appliance.core.errors import ClusterError
from appliance.core.ir.tensors import DType, TensorType
from appliance.streams.segment import create_file_segment
from appliance.streams.slot_layout import SlotLayout
from workers.memoryx.on_disk.block_checksums import BLOCK_BYTES, Checksums, CheckThreads
from workers.memoryx.on_disk.paging import Paged

SIZES = {"small": 3, "block": BLOCK_BYTES // 4, "large": 2 * BLOCK_BYTES // 4 + 5, "none": 0}
LAYOUT = SlotLayout.of((name, TensorType((size,), DType.F32)) for name, size in SIZES.items())
ITEMS = {item.name: item for item in LAYOUT.items}


@pytest.fixture
def threads():
    threads = CheckThreads()
    yield threads
    threads.close()


@pytest.fixture
def paged():
    """A file with tensors of different sizes, of random numbers."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as directory:
        descriptor = create_file_segment(Path(directory), "state", LAYOUT.num_bytes)
    memory = np.frombuffer(mmap.mmap(descriptor, LAYOUT.num_bytes), dtype=np.uint8)
    memory[...] = np.random.default_rng(1).integers(0, 256, memory.size)
    yield Paged(LAYOUT, memory, descriptor)
    os.close(descriptor)


@pytest.fixture
def checksums(paged, threads):
    return Checksums(paged, Path("/data"), threads, title=lambda name: f"Tensor {name!r}")


def flip(paged, name, byte):
    """Change one bit of a tensor, as a disk does: not through what this process has mapped."""
    place = ITEMS[name].offset + byte
    found = os.pread(paged.descriptor, 1, place)
    os.pwrite(paged.descriptor, bytes([found[0] ^ 4]), place)


def used(checksums, *names):
    """Compare tensors as whoever uses them soon does."""
    checksums.expect(names)
    checksums.require(names)


@pytest.mark.parametrize(
    ("name", "byte", "block"),
    [
        ("small", 0, (0, 11)),
        ("small", 11, (0, 11)),
        ("block", 0, (0, BLOCK_BYTES - 1)),
        ("block", BLOCK_BYTES - 1, (0, BLOCK_BYTES - 1)),
        ("large", BLOCK_BYTES, (BLOCK_BYTES, 2 * BLOCK_BYTES - 1)),
        ("large", 2 * BLOCK_BYTES + 19, (2 * BLOCK_BYTES, 2 * BLOCK_BYTES + 19)),
    ],
)
def test_a_flipped_bit_is_named_by_tensor_and_place(checksums, paged, name, byte, block):
    first, last = block
    checksums.written(SIZES)
    used(checksums, *SIZES)
    flip(paged, name, byte)
    place = ITEMS[name].offset + first
    wanted = (
        rf"Tensor '{name}' is not what was written: bytes {first:,} to {last:,} of it, "
        rf"at offset {place:,} of a file without a name in /data"
    )
    with pytest.raises(ClusterError, match=wanted):
        used(checksums, *SIZES)
    with pytest.raises(ClusterError, match=wanted):
        checksums.compare(name)
    used(checksums, *(other for other in SIZES if other != name))


def test_what_is_between_tensors_does_not_count(checksums, paged):
    checksums.written(SIZES)
    used(checksums, *SIZES)
    flip(paged, "small", 13)
    used(checksums, *SIZES)


def test_a_tensor_that_is_written_again_has_other_checksums(checksums, paged):
    checksums.written(["block", "large"])
    used(checksums, "block", "large")
    checksums.require(["block"], writes=["large"])
    flip(paged, "large", 7)
    checksums.written(["large"])
    used(checksums, "block", "large")


def test_a_tensor_in_the_hands_of_an_update_is_not_compared(checksums, paged):
    checksums.written(["large"])
    checksums.require(["large"], writes=["large"])
    flip(paged, "large", 7)
    used(checksums, "large")
    checksums.written(["large"])
    used(checksums, "large")


def test_one_that_was_never_written_is_not_compared(checksums, paged):
    flip(paged, "block", 7)
    used(checksums, "block", "of another file")
    assert checksums.compare("block") == checksums.sums("block") == ()


def test_of_a_tensor_that_is_cut_the_rest_does_not_count(checksums, paged):
    checksums.written(["large"])
    used(checksums, "large")
    checksums.cut("large", BLOCK_BYTES + 8)
    checksums.written(["large"])
    flip(paged, "large", BLOCK_BYTES + 8)
    used(checksums, "large")
    flip(paged, "large", BLOCK_BYTES + 7)
    with pytest.raises(ClusterError, match="bytes 1,048,576 to 1,048,583 "):
        used(checksums, "large")


def test_a_copy_is_compared_with_the_checksums_of_what_it_was_copied_from(checksums, paged):
    checksums.written(["large"])
    sums = checksums.sums("large")
    start = ITEMS["large"].offset
    copy = paged.memory[start : start + ITEMS["large"].type.num_bytes].copy()
    checksums.compare_content("large", copy, sums)
    copy[BLOCK_BYTES] ^= 1
    with pytest.raises(ClusterError, match="'large' is not what was written: bytes 1,048,576 to"):
        checksums.compare_content("large", copy, sums)


def test_reader_and_writer_of_the_same_tensors_never_find_damage(checksums, paged):
    """As systems load weights while updates write them, in threads of their own."""
    names, failures, ended = ["small", "block", "large"], [], threading.Event()
    checksums.written(names)

    def read():
        try:
            while not ended.is_set():
                used(checksums, *names)
        except ClusterError as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for step in range(60):
        name = names[step % 3]
        checksums.expect([name])
        checksums.require([name], writes=[name])
        start = ITEMS[name].offset
        paged.memory[start : start + ITEMS[name].type.num_bytes] += 1
        checksums.written([name])
    ended.set()
    reader.join()
    assert failures == []
