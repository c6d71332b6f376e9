"""Variables in the memory of a PE, and pointers to them that are known at compile time."""

from collections.abc import Callable

from appliance.csl.program.operands import Address
from appliance.csl.program.types import Position
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import Const


class GlobalVariable:
    """A variable in the memory of a PE; it gets its address when something first needs it."""

    __slots__ = (
        "address", "alignment", "declaration", "given_alignment", "initial", "is_const",
        "linkname", "module", "name", "place", "position", "type",
    )  # fmt: skip

    def __init__(
        self,
        place: "Callable[[GlobalVariable], int]",
        name: str,
        type_: Type,
        *,
        is_const: bool,
        position: Position,
    ) -> None:
        self.place = place
        self.name = name
        self.type = type_
        self.is_const = is_const
        self.position = position
        self.initial: Const | None = None
        self.alignment = t.align_of(type_)
        self.given_alignment: int | None = None
        self.address: int | None = None
        self.linkname: str | None = None

    def placed_address(self) -> int:
        """The address; chosen at the first call."""
        if self.address is None:
            self.address = self.place(self)
        return self.address


Binding = Const | GlobalVariable


class Pointer:
    """A pointer known at compile time: into a global, or a plain address (`variable` None)."""

    __slots__ = ("offset", "variable")

    def __init__(self, variable: GlobalVariable | None, offset: int) -> None:
        self.variable = variable
        self.offset = offset

    @property
    def address(self) -> Address:
        """The address as an operand."""
        if self.variable is None:
            return Address(self.offset & 0xFFFF, "")
        return Address(self.variable.placed_address() + self.offset, self.variable.name)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Pointer)
            and other.variable is self.variable
            and other.offset == self.offset
        )

    def __hash__(self) -> int:
        return hash((id(self.variable), self.offset))
