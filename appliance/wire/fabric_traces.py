"""The file of a trace of the simulated fabric: a header, then blocks of events that stand alone.

    8 bytes   "CSLTRACE"
    u32       version, 1
    u32       length of the header
    bytes     header: JSON (docs/fabric-traces.md), compressed with zlib
    blocks:
      u32     length of the block's data
      u32     number of its events, at most 32,768
      u64     cycle of its first event
      u64     cycle of its last event
      bytes   columns of the events, compressed with zlib

Numbers are little-endian. Blocks ascend by cycle, so a reader finds a cycle by the blocks' heads
alone, and a writer adds them as they come. A file may come from anybody: everything that is read is
bounded, and a file that was cut off ends with its last whole block.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from appliance.core.errors import UserError

MAGIC = b"CSLTRACE"
VERSION = 1
TRACE_FILE = "fabric.trace"
"""Where an SDK job's trace lies in the job's directory."""
ARTIFACTS = "artifacts"
"""Where its compiled programs lie there: `<hash>.tar.gz`, as the client downloads them."""
MAX_BLOCK_EVENTS = 32_768
MAX_BLOCK_BYTES = 1 << 20
MAX_HEADER_BYTES = 8 << 20
MAX_FILE_BYTES = 512 << 20
MAX_BLOCKS = 1 << 14
EVENT_BYTES = 20

_START = struct.Struct("<8sII")
_HEAD = struct.Struct("<IIQQ")


class TraceFormatError(UserError):
    """A file is no trace that this version can read."""


@dataclass(frozen=True, slots=True)
class Block:
    """Where a block lies, and what of.

    Attributes:
        offset: First byte of its data in the file.
        num_bytes: Bytes of its data.
    """

    offset: int
    num_bytes: int
    num_events: int
    first_cycle: int
    last_cycle: int


@dataclass(frozen=True, slots=True)
class Packed:
    """A block to be written: its events' columns, not yet compressed."""

    num_events: int
    first_cycle: int
    last_cycle: int
    columns: bytes


def pack(header: bytes, blocks: Iterable[Packed]) -> Iterator[bytes]:
    """Yield a file piece by piece.

    Args:
        header: JSON.
        blocks: In the order of cycles.
    """
    packed = zlib.compress(header)
    yield _START.pack(MAGIC, VERSION, len(packed)) + packed
    for block in blocks:
        data = zlib.compress(block.columns, 1)
        yield _HEAD.pack(len(data), block.num_events, block.first_cycle, block.last_cycle)
        yield data


class TraceFile:
    """Reads a trace; only what is asked for.

    Args:
        path: The file.

    Raises:
        TraceFormatError: It is none.
        OSError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self.header_bytes = self._read_start(file)
            self.blocks = tuple(self._read_heads(file, _START.size + self.header_bytes))

    def header(self) -> bytes:
        """Return the header's JSON."""
        return _inflated(self.packed_header(), MAX_HEADER_BYTES, self.path)

    def packed_header(self) -> bytes:
        """Return the header as it is in the file: compressed."""
        return self._bytes(_START.size, self.header_bytes)

    def packed_block(self, number: int) -> bytes:
        """Return a block's data as they are in the file: compressed columns."""
        block = self.blocks[number]
        return self._bytes(block.offset, block.num_bytes)

    def columns(self, number: int) -> bytes:
        """Return a block's columns."""
        size = EVENT_BYTES * self.blocks[number].num_events
        data = _inflated(self.packed_block(number), size, self.path)
        if len(data) != size:
            raise self._refusal(f"block {number} has {len(data):,} bytes instead of {size:,}")
        return data

    def _read_start(self, file: BinaryIO) -> int:
        data = file.read(_START.size)
        if len(data) < _START.size or data[:8] != MAGIC:
            raise self._refusal("it does not begin as one")
        _, version, header_bytes = _START.unpack(data)
        if version != VERSION:
            raise self._refusal(f"it has version {version}, this reads {VERSION}")
        if header_bytes > MAX_HEADER_BYTES:
            raise self._refusal(f"its header has {header_bytes:,} bytes")
        return int(header_bytes)

    def _read_heads(self, file: BinaryIO, at: int) -> Iterator[Block]:
        size = file.seek(0, 2)
        for _ in range(MAX_BLOCKS):
            file.seek(at)
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return
            num_bytes, num_events, first, last = _HEAD.unpack(head)
            at += _HEAD.size + num_bytes
            if num_bytes > MAX_BLOCK_BYTES or num_events > MAX_BLOCK_EVENTS:
                raise self._refusal(f"it has a block of {num_events:,} events, {num_bytes:,} bytes")
            if at > size:
                return
            yield Block(at - num_bytes, num_bytes, num_events, first, last)

    def _bytes(self, offset: int, num_bytes: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(num_bytes)

    def _refusal(self, reason: str) -> TraceFormatError:
        return TraceFormatError(f"{self.path} is no trace of the fabric: {reason}.")


def _inflated(data: bytes, most: int, path: Path) -> bytes:
    machine = zlib.decompressobj()
    try:
        found = machine.decompress(data, most)
    except zlib.error as error:
        raise TraceFormatError(f"{path} is no trace of the fabric: {error}.") from error
    if machine.unconsumed_tail or not machine.eof:
        raise TraceFormatError(f"{path} is no trace of the fabric: it is cut off or too large.")
    return found
