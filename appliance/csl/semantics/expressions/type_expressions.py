"""Types as expressions: pointers, arrays, functions, structs and enums."""

from collections.abc import Callable

from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.evaluate import coerce, evaluate, handles, is_integer
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import Const, Value, is_poison, type_value
from appliance.csl.syntax import tree


@handles(tree.PointerType)
def _pointer_type(node: tree.PointerType, frame: Frame, expected: Type | None) -> Value:
    return type_value(t.pointer_type(_type(node.target, frame), const=node.const))


@handles(tree.ManyPointerType)
def _many_pointer(node: tree.ManyPointerType, frame: Frame, expected: Type | None) -> Value:
    return type_value(t.pointer_type(_type(node.element, frame), const=node.const, many=True))


def _type(node: tree.Expression, frame: Frame) -> Type:
    value = evaluate(node, frame.comptime())
    if value.type is not t.TYPE or not isinstance(value, Const):
        if is_poison(value):
            frame.silent()
        frame.fail(node, f"expected a type, got a value of type '{value.type}'")
    found: Type = value.value
    return found


@handles(tree.ArrayType)
def _array_type(node: tree.ArrayType, frame: Frame, expected: Type | None) -> Value:
    return type_value(array_type_of(node, frame))


def array_type_of(node: tree.ArrayType, frame: Frame) -> t.ArrayType:
    """The type `[dimensions]element`."""
    dimensions: list[int] = []
    count = 1
    for item in node.dimensions:
        value = evaluate(item, frame.comptime())
        if is_poison(value):
            frame.silent()
        if not isinstance(value, Const) or not is_integer(value.type):
            frame.fail(item, f"a dimension must be a known integer, got '{value.type}'")
        if value.value < 0:
            frame.fail(item, f"dimension {value.value} is negative")
        count *= value.value
        if count > t.MAX_ELEMENTS:
            frame.fail(item, f"an array of more than {t.MAX_ELEMENTS} elements")
        dimensions.append(value.value)
    element = _type(node.element, frame)
    if isinstance(element, t.ArrayType):
        frame.fail(node.element, "an array of arrays does not exist; write [n, m]T")
    return t.array_type(tuple(dimensions), element)


@handles(tree.FunctionType)
def _function_type(node: tree.FunctionType, frame: Frame, expected: Type | None) -> Value:
    parameters = tuple([_type(parameter, frame) for parameter in node.parameters])
    result = _type(node.result, frame)
    return type_value(t.function_type(parameters, result, is_task=node.is_task))


@handles(tree.StructType)
def _struct_type(node: tree.StructType, frame: Frame, expected: Type | None) -> Value:
    if node.kind == "union" or node.packed:
        frame.check_release(node, "packed" if node.packed else "union")
    names = tuple([field.name for field in node.fields])
    for at, field in enumerate(node.fields):
        if field.name in names[:at]:
            frame.fail(field, f"field '{field.name}' is defined twice")
    field_types = [_type(field.type, frame) for field in node.fields]
    key = (node, tuple(field_types))
    if node.packed:
        return type_value(_packed(node, names, field_types, key, frame))

    def make() -> t.StructType:
        source = frame.module.unit.source
        line = source.line_column(node.start)[0]
        made = t.StructType(
            f"{node.kind} ({source.path}:{line})", names, field_types, key, is_tuple=False,
            is_union=node.kind == "union", is_extern=node.is_extern,
        )  # fmt: skip
        made.index.update({name: at for at, name in enumerate(names)})
        t.count_fields(made)
        if made.num_parts > t.MAX_PARTS:
            frame.fail(node, f"a struct of more than {t.MAX_PARTS} parts")
        return made

    return type_value(_nominal(key, make, frame))


def _packed(
    node: tree.StructType, names: tuple[str, ...], types: list[Type], key: object, frame: Frame
) -> Type:
    for item, type_ in zip(node.fields, types, strict=True):
        if t.bit_width(type_) is None:
            allowed = "numbers of the machine, bool, enums and packed types"
            frame.fail(item, f"a packed {node.kind} has fields of {allowed}, not '{type_}'")
    _check_widths(node, types, frame)
    source = frame.module.unit.source
    name = f"packed {node.kind} ({source.path}:{source.line_column(node.start)[0]})"
    made = t.packed_type(name, names, types, key, is_union=node.kind == "union")
    if not 1 <= made.bits <= t.MAX_PACKED_BITS:
        text = f"a packed {node.kind} of {made.bits} bits; it has 1 to {t.MAX_PACKED_BITS}"
        frame.fail(node, text)
    return _nominal(key, lambda: made, frame)


def _check_widths(node: tree.StructType, types: list[Type], frame: Frame) -> None:
    """The fields of a packed union have one width."""
    if node.kind != "union":
        return
    widths = [t.bit_width(type_) for type_ in types]
    for item, width in zip(node.fields, widths, strict=True):
        if width != widths[0]:
            text = f"the fields of a packed union have one width: '{item.name}' has {width} bits"
            frame.fail(item, f"{text}, '{node.fields[0].name}' has {widths[0]}")


def _nominal(key: object, make: Callable[[], Type], frame: Frame) -> Type:
    """The one type of a place in the source (and of the types in it)."""
    known = frame.world.session.nominal
    found = known.get(key)
    if found is None:
        found = known[key] = make()
    return found


@handles(tree.EnumType)
def _enum_type(node: tree.EnumType, frame: Frame, expected: Type | None) -> Value:
    base = _type(node.base, frame) if node.base else t.U16
    if not isinstance(base, t.IntType):
        frame.fail(node, f"an enum needs an integer type, got '{base}'")
    members: dict[str, int] = {}
    given: dict[str, int] = {}
    for member in node.members:
        if member.value is not None:
            value = coerce(
                evaluate(member.value, frame.comptime(), base),
                base,
                member.value,
                frame,
                member.name,
            )
            assert isinstance(value, Const), "what is evaluated at compile time is known"
            for name, number in given.items():
                if number == value.value and name != member.name:
                    text = f"member '{member.name}' has the value {number} of member '{name}'"
                    frame.fail(member.value, text)
            given[member.name] = value.value
    taken = set(given.values())
    following = 0
    for member in node.members:
        if member.name in members:
            frame.fail(member, f"member '{member.name}' is defined twice")
        if member.name in given:
            members[member.name] = given[member.name]
            continue
        while following in taken:
            following += 1
        members[member.name] = following
        taken.add(following)
    return type_value(_enum(node, base, members, frame))


def _enum(node: tree.EnumType, base: t.IntType, members: dict[str, int], frame: Frame) -> Type:
    key = (node, base, tuple(members.items()))

    def make() -> t.EnumType:
        source = frame.module.unit.source
        line = source.line_column(node.start)[0]
        made = t.EnumType(f"enum ({source.path}:{line})", base, members, key)
        made.machine = base.machine
        return made

    return _nominal(key, make, frame)
