"""Values as messages show them."""

from typing import Any

from appliance.csl.semantics.context.frames import FunctionValue
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.numbers import known_field
from appliance.csl.semantics.values.types import StructType, Type
from appliance.csl.semantics.values.values import DIRECTIONS, Const, Value, element_value


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
    if isinstance(type_, t.PackedType):
        fields = [
            _text(each, known_field(type_, at, value)) for at, each in enumerate(type_.field_types)
        ]
        texts = [f".{name} = {text}" for name, text in zip(type_.field_names, fields, strict=True)]
        return f".{{ {', '.join(texts)} }}"
    if isinstance(type_, t.ArrayType):
        shown = [text_of(element_value(type_.element, item)) for item in value[:16]]
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
        return f"module {value.unit.source.path}"
    return str(value)
