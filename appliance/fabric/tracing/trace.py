"""A trace in memory: a header that tells of the program, and events in the order of cycles."""

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appliance.fabric.bytecode import TRACE_EVENT
from appliance.wire.fabric_traces import (
    MAX_BLOCK_EVENTS,
    Packed,
    TraceFile,
    TraceFormatError,
    pack,
)

_WORDS = ("pe", "a", "b")
_BYTES = ("kind", "color", "ports", "more")
_MOST_CYCLES = 1 << 32

# `Any`: the header is JSON; docs/fabric-traces.md tells what is in it.
Header = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened on the fabric.

    Attributes:
        header: The program, and how the run ended.
        events: Records of `bytecode.TRACE_EVENT`, cycles ascending.
    """

    header: Header
    events: NDArray[np.void]

    @property
    def width(self) -> int:
        """Columns of PEs."""
        return int(self.header["width"])

    @property
    def height(self) -> int:
        """Rows of PEs."""
        return int(self.header["height"])

    def grid(self, name: str) -> NDArray[np.uint32]:
        """Return `code` or `routing`: for each PE, row by row, the number of its class."""
        data = zlib.decompress(base64.b64decode(self.header[name]))
        return np.frombuffer(data, dtype="<u4")


def packed_grid(words: bytes) -> str:
    """Return a grid of classes as a header has it."""
    return base64.b64encode(zlib.compress(words)).decode()


def file_of(trace: Trace) -> Iterator[bytes]:
    """Yield a trace as a file, piece by piece."""
    header = json.dumps(trace.header, separators=(",", ":")).encode()
    return pack(header, _blocks(trace.events))


def _blocks(events: NDArray[np.void]) -> Iterator[Packed]:
    start = 0
    while start < len(events):
        first = int(events["cycle"][start])
        far = int(np.searchsorted(events["cycle"], first + _MOST_CYCLES))
        part = events[start : min(start + MAX_BLOCK_EVENTS, far)]
        columns = [(part["cycle"] - first).astype("<u4").tobytes()]
        columns += [part[name].astype("<u4").tobytes() for name in _WORDS]
        columns += [part[name].tobytes() for name in _BYTES]
        yield Packed(len(part), first, int(part["cycle"][-1]), b"".join(columns))
        start += len(part)


def read_trace(file: TraceFile) -> Trace:
    """Return a whole trace.

    Raises:
        TraceFormatError: The file is broken.
    """
    try:
        header = json.loads(file.header())
        trace = Trace(header, np.concatenate([_EMPTY, *_decoded(file)]))
        checks = (trace.width * trace.height, len(trace.grid("code")), len(trace.grid("routing")))
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise TraceFormatError(f"{file.path} has a broken header: {error}.") from error
    if len(set(checks)) > 1 or (trace.events["pe"] >= checks[0]).any():
        raise TraceFormatError(f"{file.path} tells of PEs that its grid does not have.")
    return trace


_EMPTY = np.zeros(0, dtype=TRACE_EVENT)


def _decoded(file: TraceFile) -> Iterator[NDArray[np.void]]:
    for number, block in enumerate(file.blocks):
        data, count = file.columns(number), block.num_events
        part = np.zeros(count, dtype=TRACE_EVENT)
        words = np.frombuffer(data, dtype="<u4", count=4 * count).reshape(4, count)
        part["cycle"] = words[0] + np.uint64(block.first_cycle)
        for name, column in zip(_WORDS, words[1:], strict=True):
            part[name] = column
        rest = np.frombuffer(data, dtype="u1", offset=16 * count).reshape(4, count)
        for name, column in zip(_BYTES, rest, strict=True):
            part[name] = column
        yield part
