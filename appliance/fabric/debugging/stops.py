"""Breakpoints in the kernel's code, and which PEs have come to one.

A breakpoint is a bit in the number of an instruction, which PEs of one code share; a byte for each
PE says whether it stops there. The machine stops before the cycle in which a PE goes on behind it,
so that cycles are those of a run without.
"""

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from appliance.csl.program import Program
from appliance.fabric.bytecode import BREAK, Op
from appliance.fabric.loading import LoadedProgram
from appliance.fabric.native.loader import Kernel

_NEVER = (1 << 64) - 1
_COUNTER, _STATE, _CYCLES, _SLOT = 0, 1, 16, 26
_MOST_DEPTH = 64

Places = Mapping[int, Iterable[int]]
"""Instructions by code class."""


@dataclass
class Stops:
    """Where a loaded program stops.

    Attributes:
        loaded: As the kernel holds it.
    """

    program: Program
    loaded: LoadedProgram
    kernel: Kernel
    _watched: NDArray[np.uint8] = field(init=False)
    _code_of: list[int] = field(init=False)
    _told: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._code_of = np.frombuffer(self.program.grid.code, dtype="<u4").tolist()
        self._watched = np.zeros(len(self._code_of), dtype=np.uint8)
        self.kernel.watch(self.loaded.handle, self._watched.ctypes.data)

    def set(self, places: Iterable[Places], pes: Iterable[int]) -> None:
        """Stop these PEs at these instructions, and nowhere else."""
        for lowered in self.loaded.classes:
            lowered.code["op"] &= BREAK - 1
        for each in places:
            for code, counters in each.items():
                operations = self.loaded.classes[code].code["op"]
                for counter in counters:
                    operations[counter] |= BREAK
        self._watched[:] = 0
        self._watched[list(pes)] = 1

    def arrived(self) -> dict[int, int]:
        """Return by PE the breakpoints that PEs have come to and were not told of."""
        found: dict[int, int] = {}
        for pe in np.flatnonzero(self._watched).tolist():
            counter = self._breakpoint(pe)
            if counter is None:
                continue
            key = (counter, self.inspect(pe, _CYCLES))
            if self._told.get(pe) != key:
                self._told[pe] = key
                found[pe] = counter
        return found

    def counter(self, pe: int) -> int | None:
        """Return the next instruction of a PE's main thread; None where it runs nothing."""
        if self.inspect(pe, _COUNTER) == _NEVER or not self.inspect(pe, _STATE) & 1:
            return None
        return self.inspect(pe, _COUNTER)

    def calls(self, pe: int) -> list[int]:
        """Return the next instruction of a PE, and the places to which its calls return."""
        counter = self.counter(pe)
        found: list[int] = []
        lowered = self.loaded.classes[self.code_of(pe)] if counter else None
        while counter and lowered is not None and len(found) < _MOST_DEPTH:
            found.append(counter)
            function = int(np.searchsorted(lowered.starts, counter, side="right")) - 1
            if function < 0:
                break
            slot = int(lowered.tables["functions"][function][2])
            counter = self.inspect(pe, _SLOT, slot)
            counter = counter if counter < len(lowered.positions) else 0
        return found

    def code_of(self, pe: int) -> int:
        """Return the code class of a PE."""
        return self._code_of[pe]

    def inspect(self, pe: int, what: int, index: int = 0) -> int:
        """Return a number of a PE, as the kernel counts them."""
        return self.kernel.inspect(self.loaded.handle, pe, what, index)

    def _breakpoint(self, pe: int) -> int | None:
        """Return the breakpoint at which a PE goes on, or that lies no cycle behind."""
        counter = self.counter(pe)
        if counter is None or self.inspect(pe, _STATE) & 2:
            return None
        code = self.loaded.classes[self.code_of(pe)].code
        while not code[counter]["op"] & BREAK:
            if code[counter]["cost"] or code[counter]["op"] == Op.STOP:
                return None
            counter += 1
        return counter

    def close(self) -> None:
        """Stop nowhere any more."""
        self.set((), ())
        self.kernel.watch(self.loaded.handle, ctypes.c_void_p().value)
