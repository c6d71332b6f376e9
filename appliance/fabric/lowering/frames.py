"""The frame of a code class: which slot holds what.

Slot 0 takes results of calls. Constants come next, each once. Every function has a window of its
own: its registers, the slot of its return address, and staging slots for arguments of calls
through pointers and of services. So a call moves its arguments straight to where the callee reads
them, and only a function that can meet itself again has its window saved.
"""

from dataclasses import dataclass, field

from appliance.core.errors import UserError

RESULT = 0
MAX_SLOTS = 0xFFF0
_MASK = (1 << 64) - 1


@dataclass
class Frame:
    """Slots of one code class, as they are handed out."""

    image: list[int] = field(default_factory=lambda: [0])
    _constants: dict[int, int] = field(default_factory=dict)

    def constant(self, value: int) -> int:
        """Return the slot that holds a 64-bit constant."""
        value &= _MASK
        if value not in self._constants:
            self._constants[value] = self.reserve(1)
            self.image[self._constants[value]] = value
        return self._constants[value]

    def reserve(self, count: int) -> int:
        """Reserve consecutive slots and return the first.

        Raises:
            UserError: The class needs more slots than an instruction can name.
        """
        first = len(self.image)
        if first + count > MAX_SLOTS:
            raise UserError(
                f"A code class needs more than {MAX_SLOTS} registers and constants.",
                hint="Divide the program of this PE into smaller functions or loops.",
            )
        self.image.extend([0] * count)
        return first


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Where a function keeps its registers.

    Attributes:
        first: Slot of register 0.
        return_slot: Slot of the return address, after the registers.
        is_recursive: Whether it can be entered again before it returns.
    """

    first: int
    num_registers: int
    return_slot: int
    is_recursive: bool
