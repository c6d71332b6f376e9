"""What is debugged: a run, or the memory that a core file holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from appliance.core.errors import UserError
from appliance.csl.program import NO_CODE, Program
from appliance.fabric.symbols import SymbolTable
from appliance.sdk.container import read_program
from appliance.sdk.host.fabric_traces import sources_of


class Memory(Protocol):
    """Where memory of PEs comes from."""

    def read(self, x: int, y: int, address: int, num_bytes: int) -> bytes:
        """Return bytes of a PE's memory."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A program and its memory.

    Attributes:
        memory: What its PEs hold.
        sources: Lines of its source files by name.
        origin: Column and row of its first PE on the fabric.
    """

    program: Program
    memory: Memory
    sources: Mapping[str, Sequence[str]]
    origin: tuple[int, int]

    @property
    def symbols(self) -> SymbolTable:
        """Finds variables by name."""
        return SymbolTable(self.program)

    def code_of(self, x: int, y: int) -> int:
        """Return the code class of a PE, which counts from the program's first one.

        Raises:
            UserError: There is no such PE, or it has no program.
        """
        grid = self.program.grid
        if not (0 <= x < grid.width and 0 <= y < grid.height):
            raise UserError(
                f"There is no PE ({x}, {y}): the program has {grid.width} x {grid.height}."
            )
        code = grid.code_class(x, y)
        if code == NO_CODE:
            raise UserError(f"PE ({x}, {y}) has no program.")
        return code


class CoreMemory:
    """The memory that a core file holds.

    Args:
        path: The file that `dump_core` or the debugger's `dump` wrote.

    Raises:
        UserError: It is no core file.
    """

    def __init__(self, path: Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as core:
                self._memory = core["memory"]
                places = core["places"].reshape(-1, 2).tolist()
                self.cycle = int(core["cycle"])
                self.origin = (int(core["origin"][0]), int(core["origin"][1]))
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
        except (ValueError, KeyError, IndexError, EOFError) as error:
            raise UserError(f"{path} is no core file: {error}.") from error
        self._rows = {(x, y): row for row, (x, y) in enumerate(places)}

    def read(self, x: int, y: int, address: int, num_bytes: int) -> bytes:
        """Return bytes of a PE's memory."""
        row = self._rows.get((x, y))
        if row is None or address + num_bytes > self._memory.shape[1]:
            raise UserError(
                f"The core file has no {num_bytes} bytes at {address:#06x} of PE ({x}, {y}).",
                hint="Open it with the program that wrote it.",
            )
        return bytes(self._memory[row, address : address + num_bytes])


def core_target(path: Path, directory: Path) -> tuple[Target, int]:
    """Return what a core file and the compiled program hold, and the cycle.

    Raises:
        UserError: One of them cannot be read.
    """
    memory = CoreMemory(path)
    program = read_program(directory)
    target = Target(
        program=program, memory=memory, sources=sources_of(directory), origin=memory.origin
    )
    return target, memory.cycle
