"""Values of expressions: constants, and operands that instructions compute at run time."""

from typing import Any

from appliance.csl.program.operands import Operand
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import StructType, Type


class Const:
    """A value known at compile time.

    `value` by type: int (integers, enums, handles, directions), float, bool, bytes (strings),
    `Type`, `Scope` (modules), `FunctionValue`, `Pointer`, a descriptor, a `Dsr`, None (void), a
    tuple of `Const` (structs), a list of element values (arrays: what `.value` of an element would
    be; of `comptime_struct`, whose elements have types of their own, the elements), (start, stop,
    step) for ranges. A list is never changed once it is inside a `Const`. All fields of a union
    have the same bits.
    """

    __slots__ = ("_key", "type", "value")
    is_inactive = False

    # The kinds of value above have no common type.
    def __init__(self, type_: Type, value: Any) -> None:  # noqa: ANN401
        self.type = type_
        self.value = value
        self._key: object = None

    def __repr__(self) -> str:
        return f"Const({self.type}, {self.value!r})"

    @property
    def key(self) -> object:
        """Something hashable that is equal for equal values; made once."""
        if self._key is None:
            self._key = (self.type, _key(self.value))
        return self._key


class Inactive(Const):
    """The bits of a field of a plain union that is not the active one, which no code reads."""

    __slots__ = ()
    is_inactive = True


class Runtime:
    """A scalar, handle, pointer or DSD that the program computes."""

    __slots__ = ("operand", "type")

    def __init__(self, type_: Type, operand: Operand) -> None:
        self.type = type_
        self.operand = operand


class Mixed:
    """A struct, or the bounds of a range, of which not all parts are known at compile time."""

    __slots__ = ("fields", "type")

    def __init__(self, type_: Type, fields: "tuple[Value, ...]") -> None:
        self.type = type_
        self.fields = fields


class InMemory:
    """An array or struct that lies in memory at `base + offset`.

    `is_shared` if a variable lies there, which may change.
    """

    __slots__ = ("base", "is_shared", "offset", "type")

    def __init__(self, type_: Type, base: Operand, offset: int, *, is_shared: bool = False) -> None:
        self.type = type_
        self.base = base
        self.offset = offset
        self.is_shared = is_shared


Value = Const | Runtime | Mixed | InMemory


VOID = Const(t.VOID, None)
TRUE = Const(t.BOOL, True)
FALSE = Const(t.BOOL, False)
POISON = Const(t.POISON, None)
"""The value of what had an error; whatever uses it stays silent."""

DIRECTIONS = ("WEST", "EAST", "SOUTH", "NORTH", "RAMP")
"""Values of type `direction` are positions here."""


def boolean(value: object) -> Const:
    """A known `bool`."""
    return TRUE if value else FALSE


def type_value(type_: Type) -> Const:
    """A type as a value."""
    return Const(t.TYPE, type_)


def is_poison(value: Value) -> bool:
    """Whether an error was already reported where this came from."""
    return value.type is t.POISON


def struct_value(type_: StructType, fields: tuple[Value, ...]) -> Const | Mixed:
    """A struct: known if all its fields are."""
    for field in fields:
        if field.__class__ is not Const:
            return Mixed(type_, fields)
    return Const(type_, fields)


def anonymous(names: tuple[str, ...], fields: tuple[Value, ...]) -> Const | Mixed:
    """A struct or tuple of anonymous type."""
    type_ = t.anonymous_struct(names, tuple([field.type for field in fields]))
    return struct_value(type_, fields)


def raw_element(value: Const, element: Type) -> Any:  # noqa: ANN401 - see Const
    """What an array keeps of an element."""
    return value if element is t.COMPTIME_STRUCT else value.value


def element_value(element: Type, raw: Any) -> Const:  # noqa: ANN401 - see Const
    """The element of which an array keeps this."""
    return raw if raw.__class__ is Const else Const(element, raw)


def field_of(value: "Const | Mixed", name: str) -> Value | None:
    """A field of a struct value; None if there is none."""
    type_ = value.type
    if not isinstance(type_, StructType):
        return None
    at = type_.index.get(name)
    if at is None:
        return None
    fields = value.value if isinstance(value, Const) else value.fields
    found: Value = fields[at]
    return found


def fields_of(value: "Const | Mixed") -> tuple[Value, ...]:
    """The fields of a struct value in order."""
    fields: tuple[Value, ...] = value.value if isinstance(value, Const) else value.fields
    return fields


def _key(value: Any) -> object:  # noqa: ANN401 - see Const
    if value.__class__ is tuple:
        return tuple([item.key if isinstance(item, Const) else item for item in value])
    if value.__class__ is list:
        return tuple([_key(item) for item in value])
    if value.__class__ is float:
        return (value.hex(), "float")
    return value
