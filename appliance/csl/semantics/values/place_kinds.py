"""Kinds of places: constants, and variables in registers, in memory or at compile time."""

from collections.abc import Callable
from typing import Any

from appliance.csl.program.operands import Operand, Register
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import Const, InMemory, Mixed, Value, fields_of
from appliance.csl.semantics.values.variables import GlobalVariable, Pointer


class Cell:
    """A variable at compile time; `path` leads to an element or field of it.

    `declared` is the type of what it takes; `type` that of what it holds, which differs for
    `comptime_struct`. `nesting` counts the run-time conditions around its declaration.
    """

    __slots__ = ("box", "declared", "nesting", "path", "type")

    def __init__(
        self, type_: Type, box: list[Const], path: tuple[int, ...] = (), nesting: int = 0
    ) -> None:
        self.box = box
        self.path = path
        self.nesting = nesting
        self.declared = type_
        self.type = self._own_type() if type_ is t.COMPTIME_STRUCT else type_

    def content(self) -> Any:  # noqa: ANN401 - raw values, see Const
        """The raw value; of an element of `comptime_struct`, the element itself."""
        value: Any = self.box[0].value
        for at in self.path:
            if value.__class__ is Const:
                value = value.value
            value = value[at]
        return value

    def _own_type(self) -> Type:
        """The type of what a `comptime_struct` is at present."""
        found = self.content()
        return found.type if found.__class__ is Const else self.box[0].type


class InRegister:
    """A variable in a register."""

    __slots__ = ("register", "type")

    def __init__(self, type_: Type, register: Register) -> None:
        self.type = type_
        self.register = register


class Fields:
    """A struct variable whose fields are places of their own."""

    __slots__ = ("places", "type")

    def __init__(self, type_: t.StructType, places: "list[Place]") -> None:
        self.type: Type = type_
        self.places = places


class Memory:
    """A place in memory: inside a global (`variable`), or at an address that is computed."""

    __slots__ = ("_base", "is_const", "offset", "type", "variable")

    def __init__(
        self,
        type_: Type,
        variable: GlobalVariable | None,
        base: Operand | None,
        offset: int,
        *,
        is_const: bool,
    ) -> None:
        self.type = type_
        self.variable = variable
        self._base = base
        self.offset = offset
        self.is_const = is_const

    @property
    def base(self) -> Operand:
        """The address that `offset` is added to."""
        if self.variable is not None:
            return Pointer(self.variable, 0).address
        assert self._base is not None
        return self._base

    def part(self, type_: Type, offset: int) -> "Memory":
        """A field or element at a known offset."""
        return Memory(
            type_, self.variable, self._base, self.offset + offset, is_const=self.is_const
        )


class Fixed:
    """A value that is not a variable: it can be read, and reached into, but not written.

    `variable` makes a variable of a global constant whose address is needed.
    """

    __slots__ = ("type", "value", "variable")

    def __init__(self, value: Value, variable: Callable[[], GlobalVariable] | None = None) -> None:
        self.type = value.type
        self.value = value
        self.variable = variable


class Bits:
    """A field of a packed struct or union, by its number: some bits of `container`."""

    __slots__ = ("at", "container", "type")

    def __init__(self, container: "Place", at: int) -> None:
        whole: Type = container.type
        assert isinstance(whole, t.PackedType)
        self.type: Type = whole.field_types[at]
        self.container = container
        self.at = at


Place = Cell | InRegister | Fields | Memory | Fixed | Bits


def as_place(binding: object) -> "Place":
    """A local or global binding as a place."""
    if isinstance(binding, Cell | InRegister | Fields | Memory | Fixed | Bits):
        return binding
    if isinstance(binding, GlobalVariable):
        return Memory(binding.type, binding, None, 0, is_const=binding.is_const)
    if isinstance(binding, InMemory):
        return Memory(binding.type, None, binding.base, binding.offset, is_const=True)
    return Fixed(binding)  # type: ignore[arg-type] # the remaining bindings are values


def part_of(operand: Place, at: int) -> Place:
    """A field of a struct or tuple by its number."""
    type_ = operand.type
    if isinstance(type_, t.PackedType):
        return Bits(operand, at)
    assert isinstance(type_, t.StructType)
    field_type = type_.field_types[at]
    match operand:
        case Cell(box=box, path=path, nesting=nesting):
            return Cell(field_type, box, (*path, at), nesting)
        case Fields(places=places):
            return places[at]
        case Memory():
            return operand.part(field_type, t.struct_offsets(type_)[0][at])
        case Fixed(value=value):
            assert isinstance(value, Const | Mixed)
            return as_place(fields_of(value)[at])
        case _:
            raise AssertionError("a struct is never in a register")
