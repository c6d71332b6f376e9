"""Registers builtins by name, checks the number of their arguments, and reads arguments."""

from collections.abc import Callable
from dataclasses import dataclass

from appliance.csl.diagnostics import did_you_mean
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.evaluate import evaluate, handles, is_integer, known
from appliance.csl.semantics.results.layout import LayoutWorld
from appliance.csl.semantics.results.tile import TileWorld
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import StructType, Type
from appliance.csl.semantics.values.values import VOID, Const, Mixed, Value, fields_of, is_poison
from appliance.csl.syntax import tree

Builtin = Callable[[tree.BuiltinCall, Frame, Type | None], Value]


@dataclass(frozen=True, slots=True)
class _Entry:
    least: int
    most: int
    function: Builtin


_BUILTINS: dict[str, _Entry] = {}
MANY = 99


def builtin(name: str, least: int, most: int | None = None) -> Callable[[Builtin], Builtin]:
    """Registers a builtin that takes `least` to `most` arguments."""

    def register(function: Builtin) -> Builtin:
        most_ = least if most is None else most
        _BUILTINS[name] = _Entry(least, most_, function)
        return function

    return register


def names_of_builtins() -> frozenset[str]:
    """The names of all builtins, those for our libraries too."""
    return frozenset(_BUILTINS)


@handles(tree.BuiltinCall)
def _call(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    entry = _BUILTINS.get(node.name)
    span = (node.start, node.start + 1 + len(node.name))
    frame.check_release(span, f"@{node.name}")
    if entry is None:
        near = did_you_mean(node.name, _BUILTINS).replace("'", "'@", 1)
        frame.fail(span, f"there is no builtin '@{node.name}'{near}")
    count = len(node.arguments)
    if not entry.least <= count <= entry.most:
        frame.fail(node, f"'@{node.name}' takes {_counts(entry)}, got {count}")
    return entry.function(node, frame, expected)


def _counts(entry: _Entry) -> str:
    if entry.most == MANY:
        return f"at least {entry.least} arguments"
    if entry.least == entry.most:
        return (
            "no arguments"
            if not entry.least
            else f"{entry.least} argument{'s' * (entry.least > 1)}"
        )
    return f"{entry.least} to {entry.most} arguments"


def layout_world(node: tree.BuiltinCall, frame: Frame) -> LayoutWorld:
    """The layout, for builtins that only a layout block may use; counts an effect."""
    world = frame.world
    if not isinstance(world, LayoutWorld):
        frame.fail(node, f"'@{node.name}' is for layout blocks")
    world.effects += 1
    return world


def tile_world(node: tree.BuiltinCall, frame: Frame) -> TileWorld:
    """The tile, for builtins of comptime blocks; counts an effect."""
    world = frame.world
    if not isinstance(world, TileWorld):
        frame.fail(node, f"'@{node.name}' is not for layout blocks")
    if frame.builder is not None:
        frame.fail(node, f"'@{node.name}' is for top-level comptime blocks")
    world.effects += 1
    return world


def code_world(node: tree.BuiltinCall, frame: Frame) -> TileWorld:
    """The tile, for builtins that work in comptime blocks and in code; counts an effect."""
    world = frame.world
    if not isinstance(world, TileWorld):
        frame.fail(node, f"'@{node.name}' is not for layout blocks")
    world.effects += 1
    return world


def argument(node: tree.BuiltinCall, at: int, frame: Frame, expected: Type | None = None) -> Value:
    """An argument's value; silent if it had an error."""
    value = evaluate(node.arguments[at], frame, expected)
    if is_poison(value):
        frame.silent()
    return value


def known_argument(node: tree.BuiltinCall, at: int, frame: Frame, what: str) -> Const:
    """An argument that must be known at compile time."""
    return known(node.arguments[at], frame, what)


def int_argument(node: tree.BuiltinCall, at: int, frame: Frame, what: str) -> int:
    """A known integer argument."""
    value = known(node.arguments[at], frame, what)
    if not is_integer(value.type):
        frame.fail(node.arguments[at], f"{what} must be an integer, got '{value.type}'")
    number: int = value.value
    return number


def type_argument(node: tree.BuiltinCall, at: int, frame: Frame) -> Type:
    """An argument that is a type."""
    value = evaluate(node.arguments[at], frame.comptime())
    if is_poison(value):
        frame.silent()
    if value.type is not t.TYPE or not isinstance(value, Const):
        frame.fail(node.arguments[at], f"expected a type, got a value of type '{value.type}'")
    found: Type = value.value
    return found


def string_argument(node: tree.BuiltinCall, at: int, frame: Frame) -> bytes:
    """An argument that is a known string."""
    value = known(node.arguments[at], frame, "a string")
    if value.type is not t.STRING:
        frame.fail(node.arguments[at], f"expected a string, got '{value.type}'")
    found: bytes = value.value
    return found


class Settings:
    """A struct of options: each may be given once, and unknown ones are errors."""

    def __init__(self, value: Value, node: tree.Node, frame: Frame, what: str) -> None:
        self.node = node
        self.frame = frame
        self.what = what
        self._fields: dict[str, Value] = {}
        if value.type is t.VOID:
            return
        type_ = value.type
        if not isinstance(type_, StructType) or not isinstance(value, Const | Mixed):
            frame.fail(node, f"{what} must be a struct, got '{type_}'")
        if type_.is_tuple and type_.field_types:
            frame.fail(node, f"{what} needs '.name = value'")
        self._fields = dict(zip(type_.field_names, fields_of(value), strict=True))
        self._all = tuple(self._fields)

    def has(self, name: str) -> bool:
        """Whether an option is given that was not taken yet."""
        return name in self._fields

    def take(self, name: str) -> Value | None:
        """An option's value, if it is given."""
        return self._fields.pop(name, None)

    def take_known(self, name: str) -> Const | None:
        """The value of an option that must be known at compile time."""
        value = self._fields.pop(name, None)
        if value is not None and not isinstance(value, Const):
            self.frame.fail(self.node, f"'.{name}' of {self.what} must be known at compile time")
        return value

    def check_machine(self, name: str, architecture: str) -> None:
        """Fails if an option is given that another machine has."""
        if name in self._fields and self.frame.world.session.options.architecture != architecture:
            where = self._place(name)
            self.frame.fail(where, f"'.{name}' of {self.what} exists on {architecture} only")

    def take_int(self, name: str) -> int | None:
        """The value of a known integer option."""
        value = self.take_known(name)
        if value is None:
            return None
        if not is_integer(value.type):
            self.frame.fail(
                self.node, f"'.{name}' of {self.what} must be an integer, got '{value.type}'"
            )
        number: int = value.value
        return number

    def take_bool(self, name: str) -> bool:
        """The value of a known option that is true or false; false if it is not given."""
        value = self.take_known(name)
        if value is None:
            return False
        if value.type is not t.BOOL:
            self.frame.fail(
                self.node, f"'.{name}' of {self.what} must be a bool, got '{value.type}'"
            )
        return bool(value.value)

    def finish(self, known_names: tuple[str, ...]) -> None:
        """Reports an error for options that were not used."""
        for name in self._fields:
            near = did_you_mean(name, known_names)
            self.frame.fail(self._place(name), f"{self.what} has no option '.{name}'{near}")

    def _place(self, name: str) -> tree.Node:
        if isinstance(self.node, tree.Initializer):
            for field in self.node.fields:
                if field.name == name:
                    return field
        return self.node


def settings_argument(node: tree.BuiltinCall, at: int, frame: Frame, what: str) -> Settings:
    """The trailing struct of a builtin; an empty one if it is not given."""
    if at >= len(node.arguments):
        return Settings(VOID, node, frame, what)
    return Settings(argument(node, at, frame), node.arguments[at], frame, what)
