"""How a memory DSD walks over an array: a tensor access, or its properties one by one."""

from dataclasses import dataclass

from appliance.csl.builtins.registry import Settings
from appliance.csl.program.types import DescriptorType
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.access import load
from appliance.csl.semantics.expressions.evaluate import converted, evaluate, handles, is_integer
from appliance.csl.semantics.expressions.operators import binary_operation
from appliance.csl.semantics.expressions.places import address_of, in_memory, place_of
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import Place
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import (
    VOID,
    Const,
    Mixed,
    Runtime,
    Value,
    anonymous,
    fields_of,
    is_poison,
)
from appliance.csl.syntax import tree


@dataclass(frozen=True, slots=True)
class Walk:
    """An affine walk: where it begins, how far and in what steps it goes, in elements."""

    base: Value
    element: Type
    offset: Value
    extents: tuple[Value, ...]
    strides: tuple[Value, ...]


@handles(tree.TensorAccess)
def _access(node: tree.TensorAccess, frame: Frame, expected: Type | None) -> Value:
    """A tensor access as a value: the struct of properties that it stands for."""
    walk = _tensor(node, frame)
    extents, strides = walk.extents[::-1], _differences(walk, node, frame)
    return anonymous(
        ("base_address", "offset", "extent", "stride"),
        (walk.base, walk.offset, anonymous((), extents), anonymous((), strides)),
    )


_PROPERTIES = ("base_address", "extent", "stride", "offset")


def walk_of(node: tree.Expression, frame: Frame, kind: DescriptorType) -> tuple[Walk, bool]:
    """The walk that the properties of a memory DSD describe, and `wavelet_index_offset`."""
    access, fields = _split(node, frame)
    index_offset = False
    settings = _settings(fields, node, frame, kind)
    index_offset = settings.take_bool("wavelet_index_offset")
    value = settings.take("tensor_access")
    if access is not None or value is not None:
        for name in ("base_address", "extent", "stride", "offset"):
            if settings.take(name) is not None:
                frame.fail(node, f"'.tensor_access' gives '.{name}' already")
    if access is not None:
        walk = _tensor(access, frame)
        if kind is DescriptorType.MEM1D:
            for stride in walk.strides:
                _check_limit(stride, t.I8, "the stride of this access", access, frame)
    elif value is not None:
        own = Settings(value, node, frame, "'.tensor_access'")
        walk = _separate(own, node, frame)
        own.finish(_PROPERTIES)
    else:
        walk = _separate(settings, node, frame)
    settings.finish(("tensor_access", *_PROPERTIES, "wavelet_index_offset"))
    check_element(walk.element, node, frame)
    return walk, index_offset


def check_element(element: Type, node: tree.Node, frame: Frame) -> None:
    """Operations take numbers of 16 or 32 bits from memory."""
    is_other = isinstance(element, t.IntType) and element.bits not in (16, 32)
    if is_other or element is t.BOOL:
        frame.fail(node, f"a DSD walks over numbers of 16 or 32 bits, not over '{element}'")


def _split(node: tree.Expression, frame: Frame) -> tuple[tree.TensorAccess | None, tree.Expression]:
    """The tensor access among the properties, and the properties without it."""
    while isinstance(node, tree.IfExpression):
        condition = evaluate(node.condition, frame)
        if not isinstance(condition, Const):
            frame.fail(node.condition, "this condition must be known at compile time")
        chosen = node.then if condition.value else node.otherwise
        if chosen is None:
            frame.fail(node, "a DSD needs properties")
        node = chosen
    if isinstance(node, tree.TensorAccess):
        return node, tree.Initializer(node.start, node.end, None, [])
    if isinstance(node, tree.Initializer) and node.type is None:
        for field in node.fields:
            if field.name == "tensor_access" and isinstance(field.value, tree.TensorAccess):
                rest = [other for other in node.fields if other is not field]
                return field.value, tree.Initializer(node.start, node.end, None, rest)
    return None, node


def _settings(
    node: tree.Expression, original: tree.Expression, frame: Frame, kind: DescriptorType
) -> Settings:
    if isinstance(node, tree.Initializer) and not node.fields:
        return Settings(VOID, original, frame, f"'{kind}'")
    value = evaluate(node, frame)
    if is_poison(value):
        frame.silent()
    return Settings(value, node, frame, f"'{kind}'")


def _separate(settings: Settings, node: tree.Expression, frame: Frame) -> Walk:
    base, extent = settings.take("base_address"), settings.take("extent")
    stride = settings.take("stride") or Const(t.I16, 1)
    offset = settings.take("offset") or Const(t.I16, 0)
    if base is None or extent is None:
        missing = "'.tensor_access', or '.base_address' and '.extent'"
        frame.fail(node, f"{settings.what} needs {missing}")
    if not isinstance(base.type, t.PointerType):
        frame.fail(node, f"'.base_address' needs a pointer, got '{base.type}'")
    target = base.type.target
    element = target.element if isinstance(target, t.ArrayType) else target
    extents, strides = _dimensions(extent), _dimensions(stride)
    limit = t.I8 if len(strides) == 1 else t.I16
    _check_property(offset, t.I16, "offset", node, frame)
    for item in extents:
        _check_property(item, t.U16, "extent", node, frame)
    for item in strides:
        _check_property(item, limit, "stride", node, frame)
    if len(extents) != len(strides):
        counts = f"{len(extents)} extents and {len(strides)} strides"
        frame.fail(node, f"{counts} do not match; give one stride for each extent")
    if len(extents) == 1:
        return Walk(base, element, offset, extents, strides)
    return Walk(base, element, offset, extents[::-1], _steps(extents, strides, node, frame))


def _dimensions(value: Value) -> tuple[Value, ...]:
    """A property of one dimension, or those of several, the innermost first."""
    is_tuple = isinstance(value.type, t.StructType) and value.type.is_tuple
    if is_tuple and isinstance(value, Const | Mixed):
        return fields_of(value)
    return (value,)


def _check_property(
    value: Value, limit: t.IntType, name: str, node: tree.Expression, frame: Frame
) -> None:
    if not is_integer(value.type):
        frame.fail(node, f"'.{name}' must be an integer, got '{value.type}'")
    _check_limit(value, limit, f"'.{name}'", node, frame)


def _known(values: tuple[Value, ...], node: tree.Expression, frame: Frame) -> list[int]:
    numbers = [value.value for value in values if isinstance(value, Const)]
    if len(numbers) < len(values):
        frame.fail(node, "extents and strides of several dimensions are known at compile time")
    return numbers


def _steps(
    extents: tuple[Value, ...], differences: tuple[Value, ...], node: tree.Expression, frame: Frame
) -> tuple[Value, ...]:
    """How far an access moves for each variable, the outermost first.

    A stride of the machine is what the address changes by when its dimension advances, which is
    when all inner ones are at their end: their travel counts in.
    """
    travel, steps = 0, []
    sizes, changes = _known(extents, node, frame), _known(differences, node, frame)
    for extent, change in zip(sizes, changes, strict=True):
        steps.append(Const(t.COMPTIME_INT, change + travel))
        travel += (change + travel) * max(extent - 1, 0)
    return tuple(steps[::-1])


def _differences(walk: Walk, node: tree.Expression, frame: Frame) -> tuple[Value, ...]:
    """The strides that lead to these steps, the innermost first."""
    if len(walk.extents) == 1:
        return walk.strides
    travel, found = 0, []
    sizes, steps = _known(walk.extents, node, frame), _known(walk.strides, node, frame)
    for extent, step in zip(sizes[::-1], steps[::-1], strict=True):
        found.append(Const(t.COMPTIME_INT, step - travel))
        travel += step * max(extent - 1, 0)
    return tuple(found)


def _check_limit(
    value: Value, limit: t.IntType, what: str, node: tree.Expression, frame: Frame
) -> None:
    """A known property fits the machine's field."""
    if isinstance(value, Const) and not limit.low <= value.value <= limit.high:
        range_ = f"{limit.low} to {limit.high}"
        frame.fail(node, f"{what} is {value.value}; it must fit '{limit}' ({range_})")


def _tensor(node: tree.TensorAccess, frame: Frame) -> Walk:
    if len(node.variables) != len(node.extents):
        frame.fail(
            node, f"{len(node.variables)} variables and {len(node.extents)} extents do not match"
        )
    names = [variable.name for variable in node.variables]
    extents: list[Value] = []
    for item in node.extents:
        value = evaluate(item, frame)
        if is_poison(value):
            frame.silent()
        if not is_integer(value.type):
            frame.fail(item, f"an extent must be an integer, got '{value.type}'")
        if isinstance(value, Const) and not 0 <= value.value <= 0xFFFF:
            frame.fail(item, f"extent {value.value} is outside 0 to 65535")
        extents.append(value)
    operand, indices = _accessed(node.operand, frame)
    base, array = _base(operand, indices, frame)
    return _flattened(base, array, indices, names, extents, node, frame)


def _accessed(node: tree.Expression, frame: Frame) -> tuple[tree.Expression, list[tree.Expression]]:
    if not isinstance(node, tree.Index):
        frame.fail(node, "a tensor access ends in an indexed array")
    return node.operand, node.indices


def _base(
    node: tree.Expression, indices: list[tree.Expression], frame: Frame
) -> tuple[Value, t.ArrayType]:
    """The array that is walked over: its address and type."""
    place: Place = place_of(node, frame)
    type_ = place.type
    if type_ is t.POISON:
        frame.silent()
    if isinstance(type_, t.PointerType):
        pointer = load(place, node, frame)
        if isinstance(type_.target, t.ArrayType):
            return pointer, type_.target
        return pointer, t.array_type((1 << 16,), type_.target)
    if not isinstance(type_, t.ArrayType):
        frame.fail(node, f"a tensor access walks over an array, not '{type_}'")
    return address_of(in_memory(place, node, frame), node, frame), type_


def _flattened(
    base: Value,
    array: t.ArrayType,
    indices: list[tree.Expression],
    names: list[str],
    extents: list[Value],
    node: tree.TensorAccess,
    frame: Frame,
) -> Walk:
    """One stride per variable: the indices' coefficients times the sizes of the dimensions."""
    if len(indices) != len(array.dimensions):
        frame.fail(
            node.operand, f"'{array}' takes {len(array.dimensions)} indices, got {len(indices)}"
        )
    strides = [0] * len(names)
    offset: Value = Const(t.COMPTIME_INT, 0)
    size = array.count
    for item, dimension in zip(indices, array.dimensions, strict=True):
        size = size // dimension if dimension else 0
        coefficients, constant = _affine(item, names, frame)
        for at, coefficient in enumerate(coefficients):
            strides[at] += coefficient * size
        offset = _add(offset, constant, size, item, frame)
    known = tuple([Const(t.COMPTIME_INT, stride) for stride in strides])
    return Walk(base, array.element, offset, tuple(extents), known)


def _add(total: Value, constant: Value, size: int, node: tree.Expression, frame: Frame) -> Value:
    if isinstance(total, Const) and isinstance(constant, Const):
        return Const(t.COMPTIME_INT, total.value + constant.value * size)
    scale = Const(t.COMPTIME_INT, size)
    scaled = binary_operation("*", _as_i16(constant, node, frame), scale, node, frame)
    return binary_operation("+", scaled, _as_i16(total, node, frame), node, frame)


def _as_i16(value: Value, node: tree.Expression, frame: Frame) -> Value:
    if isinstance(value, Const):
        return Const(t.I16, value.value)
    assert isinstance(value, Runtime)
    return value if value.type is t.I16 else converted(value, t.I16, node, frame)


def _affine(node: tree.Expression, names: list[str], frame: Frame) -> tuple[list[int], Value]:
    """An index as known multiples of the variables plus a rest."""
    none = [0] * len(names)
    if tree.names_of(node).isdisjoint(names):
        value = evaluate(node, frame)
        if is_poison(value):
            frame.silent()
        if not is_integer(value.type):
            frame.fail(node, f"an index must be an integer, got '{value.type}'")
        if isinstance(value, Const):
            return none, Const(t.COMPTIME_INT, value.value)
        return none, value
    zero = Const(t.COMPTIME_INT, 0)
    if isinstance(node, tree.Name):
        return [int(name == node.name) for name in names], zero
    if isinstance(node, tree.Unary) and node.op == "-":
        coefficients, rest = _affine(node.operand, names, frame)
        return [-c for c in coefficients], _negated(rest, node, frame)
    if isinstance(node, tree.Binary) and node.op in ("+", "-"):
        return _sum(node, names, frame)
    if isinstance(node, tree.Binary) and node.op == "*":
        return _product(node, names, frame)
    if isinstance(node, tree.BuiltinCall) and node.name == "as" and len(node.arguments) == 2:
        return _affine(node.arguments[1], names, frame)
    frame.fail(node, "an index must be a sum of multiples of the access's variables")


def _negated(value: Value, node: tree.Expression, frame: Frame) -> Value:
    return binary_operation("-", Const(t.COMPTIME_INT, 0), value, node, frame)


def _sum(node: tree.Binary, names: list[str], frame: Frame) -> tuple[list[int], Value]:
    left, left_rest = _affine(node.left, names, frame)
    right, right_rest = _affine(node.right, names, frame)
    if node.op == "-":
        right = [-c for c in right]
    rest = binary_operation(node.op, left_rest, right_rest, node, frame)
    return [a + b for a, b in zip(left, right, strict=True)], rest


def _product(node: tree.Binary, names: list[str], frame: Frame) -> tuple[list[int], Value]:
    left, left_rest = _affine(node.left, names, frame)
    right, right_rest = _affine(node.right, names, frame)
    if any(left) and any(right):
        frame.fail(node, "an index must be a sum of multiples of the access's variables")
    factor, coefficients, rest = (
        (left_rest, right, right_rest) if any(right) else (right_rest, left, left_rest)
    )
    if not isinstance(factor, Const):
        frame.fail(node, "the multiple of a variable must be known at compile time")
    product = binary_operation("*", rest, factor, node, frame)
    return [c * factor.value for c in coefficients], product
