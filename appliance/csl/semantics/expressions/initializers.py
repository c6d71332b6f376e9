"""Evaluates initialisers of structs, tuples and arrays: `.{...}` and `T{...}`."""

from appliance.csl.diagnostics import did_you_mean
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.access import stable, store
from appliance.csl.semantics.expressions.evaluate import (
    IN_MEMORY,
    coerce,
    evaluate,
    handles,
    type_of_node,
    union_value,
)
from appliance.csl.semantics.expressions.packed import packed_value
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import Memory, part_of
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import (
    POISON,
    VOID,
    Const,
    InMemory,
    Value,
    anonymous,
    is_poison,
    raw_element,
    struct_value,
)
from appliance.csl.syntax import tree


@handles(tree.Initializer)
def _initializer(node: tree.Initializer, frame: Frame, expected: Type | None) -> Value:
    if frame.builder is not None:
        return _value(node, frame, expected)
    cached = frame.module.cache.get(node)
    if cached is not None:
        if cached is not VOID:
            return cached
        return _value(node, frame, expected)
    before = frame.world.effects
    value = _value(node, frame, expected)
    is_fixed = frame.world.effects == before and tree.names_of(node).isdisjoint(frame.locals)
    if is_fixed and isinstance(value, Const) and expected is None:
        frame.module.cache[node] = value
    elif not is_fixed:
        frame.module.cache[node] = VOID
    return value


def _value(node: tree.Initializer, frame: Frame, expected: Type | None) -> Value:
    if node.type is None:
        return _anonymous(node, frame, expected)
    type_ = type_of_node(node.type, frame)
    if isinstance(type_, t.StructType | t.PackedType):
        return _struct(node, type_, frame)
    if isinstance(type_, t.ArrayType):
        return _array(node, type_, frame)
    frame.fail(node, f"type '{type_}' takes no fields")


def _anonymous(node: tree.Initializer, frame: Frame, expected: Type | None) -> Value:
    """A struct or tuple of anonymous type; the expected type guides its elements."""
    names: list[str] = []
    values: list[Value] = []
    for at, field in enumerate(node.fields):
        value = evaluate(field.value, frame, _wanted(expected, field.name, at))
        if is_poison(value):
            return POISON
        values.append(stable(value, field, frame))
        if field.name is not None:
            if field.name in names:
                frame.fail(field, f"field '{field.name}' is given twice")
            names.append(field.name)
    if names and len(names) != len(values):
        frame.fail(node, "either all fields have names or none")
    if sum(value.type.num_parts for value in values) > t.MAX_PARTS:
        frame.fail(node, f"a struct of more than {t.MAX_PARTS} parts")
    return anonymous(tuple(names), tuple(values))


def _wanted(expected: Type | None, name: str | None, at: int) -> Type | None:
    if isinstance(expected, t.ArrayType):
        return expected.element
    if not isinstance(expected, t.StructType | t.PackedType):
        return None
    if name is not None:
        at = expected.index.get(name, -1)
    return expected.field_types[at] if 0 <= at < len(expected.field_types) else None


def _struct(node: tree.Initializer, type_: t.StructType | t.PackedType, frame: Frame) -> Value:
    given: dict[str, Value] = {}
    for field in node.fields:
        if field.name is None:
            frame.fail(field, f"'{type_}' needs '.name = value'")
        at = type_.index.get(field.name)
        if at is None:
            near = did_you_mean(field.name, type_.field_names)
            frame.fail(field, f"type '{type_}' has no field '{field.name}'{near}")
        if field.name in given:
            frame.fail(field, f"field '{field.name}' is given twice")
        wanted = type_.field_types[at]
        value = evaluate(field.value, frame, wanted)
        if is_poison(value):
            return POISON
        value = coerce(value, wanted, field.value, frame, f"field '{field.name}'")
        given[field.name] = stable(value, field, frame)
    if isinstance(type_, t.PackedType):
        return packed_value(type_, given, node, frame)
    if type_.is_union:
        if len(given) != 1:
            frame.fail(node, f"a union is made of one field, got {len(given)}")
        ((name, value),) = given.items()
        return union_value(type_, type_.index[name], value, node, frame)
    missing = [name for name in type_.field_names if name not in given]
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        frame.fail(node, f"no value for field {names} of '{type_}'")
    return struct_value(type_, tuple([given[name] for name in type_.field_names]))


def _array(node: tree.Initializer, type_: t.ArrayType, frame: Frame) -> Value:
    if len(node.fields) != type_.count:
        frame.fail(node, f"'{type_}' takes {type_.count} elements, got {len(node.fields)}")
    values: list[Value] = []
    for field in node.fields:
        if field.name is not None:
            frame.fail(field, "an element of an array has no name")
        value = evaluate(field.value, frame, type_.element)
        if is_poison(value):
            return POISON
        values.append(coerce(value, type_.element, field.value, frame, "element"))
    raw = [raw_element(value, type_.element) for value in values if isinstance(value, Const)]
    if len(raw) == len(values):
        return Const(type_, raw)
    return _array_in_memory(node, type_, values, frame)


def _in_memory(
    type_: t.StructType, given: list[tuple[int, Value]], node: tree.Node, frame: Frame
) -> Value:
    """A struct or union in a variable of its own, with some fields written."""
    builder = frame.builder
    assert builder is not None, "what is evaluated at compile time is known"
    variable = frame.world.local_variable(builder, "value", type_, frame.position(node))
    place = Memory(type_, variable, None, 0, is_const=False)
    for at, value in given:
        store(part_of(place, at), value, node, frame)
    return InMemory(type_, place.base, 0)


IN_MEMORY.append(_in_memory)


def _array_in_memory(
    node: tree.Initializer, type_: t.ArrayType, values: list[Value], frame: Frame
) -> Value:
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    variable = frame.world.local_variable(builder, "array", type_, position)
    place = Memory(type_, variable, None, 0, is_const=False)
    stride = t.stride_of(type_.element)
    for at, value in enumerate(values):
        store(place.part(type_.element, at * stride), value, node, frame)
    return InMemory(type_, place.base, 0)
