"""What an expression gives: a value known at compile time, or code that computes it."""

from typing import TYPE_CHECKING, Any

from appliance.csl.program.operands import Address, Operand
from appliance.csl.semantics import types as t
from appliance.csl.semantics.types import StructType, Type

if TYPE_CHECKING:
    from appliance.csl.semantics.modules import GlobalVariable, Module
    from appliance.csl.syntax import tree


class Const:
    """A value known at compile time.

    `value` by type: int (integers, enums, handles, directions), float, bool, bytes (strings),
    `Type`, `Module`, `FunctionValue`, `Pointer`, a descriptor, a `Dsr`, None (void), a tuple of
    `Const` (structs), a list of element values (arrays: what `.value` of an element would be),
    (start, stop, step) for ranges. A list is never changed once it is inside a `Const`.
    """

    __slots__ = ("_key", "type", "value")

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
    """An array or struct that lies in memory at `base + offset`."""

    __slots__ = ("base", "offset", "type")

    def __init__(self, type_: Type, base: Operand, offset: int) -> None:
        self.type = type_
        self.base = base
        self.offset = offset


Value = Const | Runtime | Mixed | InMemory


class Pointer:
    """A pointer known at compile time: into a global, or a plain address (`variable` None)."""

    __slots__ = ("offset", "variable")

    def __init__(self, variable: "GlobalVariable | None", offset: int) -> None:
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


class FunctionValue:
    """A function or task of a module."""

    __slots__ = ("module", "node")

    def __init__(self, module: "Module", node: "tree.Function") -> None:
        self.module = module
        self.node = node

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FunctionValue)
            and other.module is self.module
            and other.node is self.node
        )

    def __hash__(self) -> int:
        return hash((id(self.module), id(self.node)))


class TensorOperand:
    """The value of a tensor access before `@get_dsd` sees it: an affine walk over an array."""

    __slots__ = ("base", "element", "extents", "offset", "strides")

    def __init__(
        self, base: Value, element: Type, offset: Value, extents: list[Value], strides: list[int]
    ) -> None:
        self.base = base
        self.element = element
        self.offset = offset
        self.extents = extents
        self.strides = strides


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
        return tuple([item.key if item.__class__ is Const else item for item in value])
    if value.__class__ is list:
        return tuple([_key(item) for item in value])
    if value.__class__ is float:
        return (value.hex(), "float")
    return value


def text_of(value: Value) -> str:
    """A value as messages and `@comptime_print` show it."""
    if not isinstance(value, Const):
        return f"a run-time {value.type}"
    return _text(value.type, value.value)


def _text(type_: Type, value: Any) -> str:  # noqa: ANN401 - see Const
    if type_ is t.STRING:
        return str(value.decode("utf-8", "replace"))
    if type_ is t.BOOL:
        return "true" if value else "false"
    if type_ is t.VOID:
        return "{}"
    if type_ is t.DIRECTION:
        return DIRECTIONS[value]
    if isinstance(type_, t.EnumType):
        names = [name for name, number in type_.members.items() if number == value]
        return f"{type_}.{names[0]}" if names else f"{type_}({value})"
    if isinstance(type_, StructType):
        names = [f".{name} = " for name in type_.field_names] or [""] * len(value)
        texts = [f"{name}{text_of(item)}" for name, item in zip(names, value, strict=True)]
        return f".{{ {', '.join(texts)} }}"
    if isinstance(type_, t.ArrayType):
        shown = [_text(type_.element, item) for item in value[:16]]
        return f"{type_} {{ {', '.join(shown + ['...'] * (len(value) > 16))} }}"
    if isinstance(type_, t.FunctionType):
        return f"function {value.node.name}" if isinstance(value, FunctionValue) else str(value)
    return _plain_text(type_, value)


def _plain_text(type_: Type, value: Any) -> str:  # noqa: ANN401 - see Const
    if isinstance(type_, t.HandleType):
        return f"{type_}({value})"
    if isinstance(type_, t.PointerType):
        return f"&{value.variable.name}" if value.variable else f"{type_}({value.offset})"
    if type_ is t.MODULE:
        return f"module {value.source.path}"
    return str(value)
