"""What symbols held when a run was stopped: memory of PEs, and traces of `<debug>`."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from appliance.core.errors import WscError
from appliance.sdk.host.arrays import HostArray
from appliance.sdk.symbols import HostCallError

if TYPE_CHECKING:
    from appliance.fabric.host_interface import Simulator

Rectangle = tuple[tuple[int, int], tuple[int, int]]
"""Column and row of the first PE, then width and height."""


class _Stopped(NamedTuple):
    simulator: "Simulator"
    offsets: tuple[int, int]


_runs: dict[Path, _Stopped] = {}


def remember(directory: Path, simulator: "Simulator", offsets: tuple[int, int]) -> None:
    """Store the last run of a program, so that its memory can be inspected."""
    _runs[directory] = _Stopped(simulator, offsets)


class StoppedRun:
    """Memory of the last run of a program that this process has stopped.

    Coordinates are those of the whole fabric, in which the program's first PE is at the offsets
    that it was compiled with.

    Args:
        bindir: Directory that `cslc` wrote.
        cmaddr: Address of the system that it ran on; accepted, the run is found by the directory.
    """

    def __init__(self, bindir: str | os.PathLike[str], cmaddr: str | None = None) -> None:
        del cmaddr
        self._directory = Path(bindir).resolve()
        if self._directory not in _runs:
            raise HostCallError(
                f"No run of {self._directory} has been stopped in this process; memory can be "
                "looked at after stop()."
            )

    def get_symbol(self, col: int, row: int, symbol: str, dtype: DTypeLike) -> HostArray:
        """Return the elements of a symbol of one PE."""
        found: HostArray = self.get_symbol_rect(((col, row), (1, 1)), symbol, dtype)[0, 0]
        return found

    def get_symbol_rect(self, rectangle: Rectangle, symbol: str, dtype: DTypeLike) -> HostArray:
        """Return the elements of a symbol on a rectangle, indexed by column, row and element.

        Raises:
            HostCallError: A PE does not have it, or has it in another size.
        """
        (col, row), (width, height) = rectangle
        if width < 1 or height < 1:
            raise HostCallError(f"A rectangle of {width} x {height} PEs holds nothing.")
        kind = np.dtype(dtype)
        columns = [
            [self._read(col + x, row + y, symbol, kind) for y in range(height)]
            for x in range(width)
        ]
        sizes = {each.size for column in columns for each in column}
        if len(sizes) > 1:
            raise HostCallError(f"Symbol {symbol!r} has {sorted(sizes)} elements, depending on PE.")
        return np.array(columns, kind)

    # `object`: a trace holds values of different types.
    def read_trace(self, px: int, py: int, key: str) -> list[object]:
        """Return what a PE traced with the `<debug>` module under a key, in order."""
        prefix = f"$$csl_debug.{key}"
        num_words = int(self.get_symbol(px, py, f"{prefix}.buffer_index", np.uint16)[0])
        buffer = self.get_symbol(px, py, f"{prefix}.buffer", np.uint8).tobytes()
        return list(_records(buffer[: 2 * num_words]))

    def _read(self, col: int, row: int, symbol: str, kind: "np.dtype[np.generic]") -> HostArray:
        run = _runs[self._directory]
        try:
            data = run.simulator.read_symbol(col - run.offsets[0], row - run.offsets[1], symbol)
        except WscError as error:
            raise HostCallError(str(error)) from error
        if len(data) % kind.itemsize:
            raise HostCallError(
                f"Symbol {symbol!r} of PE ({col}, {row}) has {len(data)} bytes, which are no whole "
                f"number of {kind}."
            )
        return np.frombuffer(data, kind)


def _records(buffer: bytes) -> Iterator[object]:
    """Yield the values of a trace buffer.

    Each begins with a 16-bit word: its low byte is the type, its high byte the value of a small
    type, or the length of a string.
    """
    at = 0
    while at + 2 <= len(buffer):
        tag, high = chr(buffer[at]), buffer[at + 1 : at + 2]
        at += 2
        if tag in "?bB":
            yield struct.unpack(f"<{tag}", high)[0]
            continue
        size = high[0] if tag == "s" else _size_of(tag)
        packed = buffer[at : at + size]
        if len(packed) < size:
            raise HostCallError("The trace buffer ends within a value: it is too small.")
        at += size
        yield _value(tag, packed)


def _size_of(tag: str) -> int:
    if tag == "t":
        return 6
    try:
        return struct.calcsize(f"<{tag}")
    except struct.error as error:
        raise HostCallError(f"The trace buffer holds a value of unknown type {tag!r}.") from error


def _value(tag: str, packed: bytes) -> object:
    if tag == "t":
        return int.from_bytes(packed, "little")
    if tag == "s":
        return packed.split(b"\0")[0].decode()
    return struct.unpack(f"<{tag}", packed)[0]
