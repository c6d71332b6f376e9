"""The memories of PEs as the host sees them: by address, and by symbol element by element."""

import ctypes
import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from appliance.csl.program import NO_CODE, CodeClass, Program, Variable
from appliance.fabric.commands import CopyIn, CopyOut, Region, check_region
from appliance.fabric.errors import FabricError, UnknownSymbolError
from appliance.fabric.native.loader import Kernel
from appliance.fabric.symbols import SymbolTable

_NUMBER = re.compile(r"(?:^|[^\w.])(?:[iuf]|bf|cb)(\d+)$")
"""Type of numbers at the end of an exported pointer's type."""

_WORD_BITS = 16
"""Bits of the narrowest slot in memory."""
"""Bits of the elements at the end of an exported type, as in `[*]f32`."""


@dataclass
class Memories:
    """Memories of one program.

    Attributes:
        kernel: Simulates it.
        handle: The kernel's machine.
        symbols: What the program exports.
    """

    program: Program
    kernel: Kernel
    handle: int
    symbols: SymbolTable
    _checked: set[tuple[int, int, int, int]] = field(default_factory=set)

    def class_at(self, x: int, y: int) -> int:
        """Return the code class of a PE.

        Raises:
            UserError: There is no such PE, or it has no program.
        """
        check_region(Region(x, y, 1, 1), self.program.grid.width, self.program.grid.height)
        code_class = self.program.grid.code_class(x, y)
        if code_class == NO_CODE:
            raise UnknownSymbolError(f"PE ({x}, {y}) has no program.")
        return code_class

    def read(self, x: int, y: int, address: int, num_bytes: int) -> bytes:
        """Return bytes of a PE's memory."""
        return ctypes.string_at(self._address(x, y, address, num_bytes), num_bytes)

    def write(self, x: int, y: int, address: int, data: bytes) -> None:
        """Write bytes to a PE's memory."""
        ctypes.memmove(self._address(x, y, address, len(data)), data, len(data))

    def read_symbol(self, x: int, y: int, name: str) -> bytes:
        """Return the memory of a variable of one PE."""
        variable = self.symbols.variable(self.class_at(x, y), name)
        return self.read(x, y, variable.address, variable.num_bytes)

    def write_symbol(self, x: int, y: int, name: str, data: bytes) -> None:
        """Replace the memory of a variable of one PE.

        Raises:
            UserError: There is no such PE or variable, or it has another size.
        """
        variable = self.symbols.variable(self.class_at(x, y), name)
        if variable.num_bytes != len(data):
            raise UnknownSymbolError(
                f"Symbol {name!r} of PE ({x}, {y}) has {variable.num_bytes} bytes; {len(data)} "
                "given."
            )
        self.write(x, y, variable.address, data)

    # --- copies

    def check_width(self, command: CopyIn | CopyOut) -> None:
        """Refuse a copy of elements that are wider or narrower than the symbol's.

        Raises:
            UserError: They are, or there is no such symbol.
        """
        symbol = self.symbols.rpc(command.symbol, "Var")
        number = _NUMBER.search(symbol.type)
        if number is None:
            return
        slot = _WORD_BITS if int(number[1]) <= _WORD_BITS else 2 * _WORD_BITS
        if slot != command.bits:
            raise FabricError(
                f"A copy of {command.bits}-bit elements does not fit {symbol.name!r}, which is "
                f"exported as '{symbol.type}'.",
                hint=f"Copy with MEMCPY_{slot}BIT.",
            )

    def copy(self, command: CopyIn | CopyOut) -> NDArray[np.uint32] | None:
        """Do a copy; return what it brings out, shape (height, width, elements)."""
        region = command.region
        places = list(np.ndindex(region.height, region.width))
        if isinstance(command, CopyIn):
            shape = (region.height, region.width, command.data.shape[2])
            data = np.broadcast_to(command.data, shape)
            for y, x in places:
                self.write_elements(command, region.x + x, region.y + y, data[y, x])
            return None
        result = np.zeros((region.height, region.width, command.num_elements), np.uint32)
        for y, x in places:
            result[y, x] = self.read_elements(command, region.x + x, region.y + y)
        return result

    def write_elements(self, command: CopyIn, x: int, y: int, data: NDArray[np.uint32]) -> None:
        """Write a PE's part of a copy."""
        elements = data.astype(np.uint16) if command.bits == 16 else data
        target = self._target(x, y, command, elements.size)
        self.write(x, y, target, elements.tobytes())

    def read_elements(self, command: CopyOut, x: int, y: int) -> NDArray[np.uint32]:
        """Return a PE's part of a copy."""
        target = self._target(x, y, command, command.num_elements)
        raw = self.read(x, y, target, command.num_elements * command.bits // 8)
        kind = np.uint16 if command.bits == 16 else np.uint32
        return np.frombuffer(raw, dtype=kind).astype(np.uint32)

    def _target(self, x: int, y: int, command: CopyIn | CopyOut, count: int) -> int:
        """Return the address that an exported pointer holds, or that of an exported scalar."""
        entry = self.symbols.rpc(command.symbol, "Var")
        code_class = self.class_at(x, y)
        export = self.symbols.export(code_class, entry.name)
        if export.address is None:
            raise UnknownSymbolError(f"{entry.name!r} is exported as a function, not as data.")
        target = export.address
        if entry.type.startswith(("*", "[*]")):
            target = int.from_bytes(self.read(x, y, export.address, 2), "little")
        # What is read may end in the last 64-bit word: public programs have five f32 and read six.
        unit = 8 if isinstance(command, CopyOut) else 1
        key = (code_class, target, count * command.bits // 8, unit)
        if key not in self._checked:
            self._check_length(x, y, entry.name, key)
            self._checked.add(key)
        return target

    def _check_length(self, x: int, y: int, name: str, key: tuple[int, int, int, int]) -> None:
        code_class, target, num_bytes, unit = key
        variable = _variable_at(self.program.classes[code_class], target)
        if variable is None:
            return
        available = variable.address + variable.num_bytes - target
        if num_bytes > -(-available // unit) * unit:
            raise FabricError(
                f"PE ({x}, {y}): a copy of {num_bytes:,} bytes does not fit {name!r}; "
                f"{variable.name!r} has {available:,} there.",
                hint="Copy fewer elements, or make the array larger.",
            )

    def _address(self, x: int, y: int, address: int, num_bytes: int) -> int:
        code_class = self.class_at(x, y)
        end = self.program.classes[code_class].memory_end
        if not 0 <= address <= address + num_bytes <= end:
            raise FabricError(
                f"PE ({x}, {y}): {num_bytes:,} bytes from {address:#06x} on go beyond its data, "
                f"which end at {end:#06x}.",
                hint="Copy fewer elements, or make the array larger.",
            )
        base = self.kernel.memory(self.handle, y * self.program.grid.width + x)
        assert base is not None
        return base + address


def _variable_at(source: CodeClass, address: int) -> Variable | None:
    for variable in source.variables:
        if variable.address <= address < variable.address + variable.num_bytes:
            return variable
    return None
