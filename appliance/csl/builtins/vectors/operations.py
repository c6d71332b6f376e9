"""DSD operations and `@map`."""

from dataclasses import dataclass
from functools import cache

from appliance.csl.builtins.registry import (
    MANY,
    Settings,
    argument,
    builtin,
    known_argument,
)
from appliance.csl.builtins.vectors.extents import check_extent, warn_of_lengths
from appliance.csl.builtins.vectors.settings import OPTIONS, operation_settings
from appliance.csl.program.operands import (
    DsdOperand,
    Dsr,
    DsrKind,
    FunctionAddress,
    MemoryDescriptor,
    Place,
)
from appliance.csl.program.operations import DsdOperation, Map, MapInput, OperationSettings
from appliance.csl.program.types import BOOL as M_BOOL
from appliance.csl.program.types import DescriptorType, Scalar
from appliance.csl.semantics.context.frames import Frame, FunctionValue
from appliance.csl.semantics.expressions.evaluate import coerce, needs_code, operand_of
from appliance.csl.semantics.results.fifos import KINDS
from appliance.csl.semantics.results.tile import TileWorld
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import FloatType, Type
from appliance.csl.semantics.values.values import VOID, Const, Runtime, Value, is_poison
from appliance.csl.syntax import tree


@dataclass(frozen=True, slots=True)
class _Signature:
    """Types that scalar operands have; `sources` counts the operands behind the destination."""

    sources: int
    scalar: Type
    destination: Type
    """Type of a scalar that a pointer destination points to."""
    last: Type | None = None
    """Type of the last source, if it differs."""


@cache
def _signatures(half: FloatType) -> dict[str, _Signature]:
    """The operations by name, where the machine's 16-bit floats are of a type."""
    table: dict[str, _Signature] = {}
    for name, type_ in (("mov16", t.U16), ("mov32", t.U32), ("fmovh", half), ("fmovs", t.F32)):
        table[name] = _Signature(1, type_, type_)
    for name in ("add16", "addc16", "sub16", "and16", "or16", "xor16", "sll16", "slr16", "sar16"):
        table[name] = _Signature(2, t.U16, t.U16)
    for name in ("faddh", "fsubh", "fmulh", "fmaxh"):
        table[name] = _Signature(2, half, half)
    for name in ("fadds", "fsubs", "fmuls", "fmaxs"):
        table[name] = _Signature(2, t.F32, t.F32)
    table["faddhs"] = _Signature(2, half, t.F32, last=t.F32)
    table["faddsh"] = _Signature(2, t.F32, t.F32, last=half)
    table["fmach"] = _Signature(3, half, half)
    table["fmacs"] = _Signature(3, t.F32, t.F32)
    table["fmachs"] = _Signature(3, half, t.F32)
    for name, type_ in (("fnegh", half), ("fabsh", half), ("fnegs", t.F32), ("fabss", t.F32)):
        table[name] = _Signature(1, type_, type_)
    for name in ("clz", "ctz", "popcnt"):
        table[name] = _Signature(1, t.U16, t.U16)
    conversions = {
        "fh2s": (half, t.F32), "fs2h": (t.F32, half), "fh2xp16": (half, t.I16),
        "fs2xp16": (t.F32, t.I16), "xp162fh": (t.I16, half), "xp162fs": (t.I16, t.F32),
    }  # fmt: skip
    for name, (source, destination) in conversions.items():
        table[name] = _Signature(1, source, destination)
    for name, type_ in (("fnormh", half), ("fnorms", t.F32)):
        table[name] = _Signature(1, type_, type_)
    for name, type_ in (("fscaleh", half), ("fscales", t.F32)):
        table[name] = _Signature(2, type_, type_, last=t.I16)
    return table


_SCALAR_ONLY = frozenset(("fnormh", "fnorms", "fscaleh", "fscales"))
_ALSO_SCALAR = frozenset(("fh2xp16", "fs2xp16"))
"""What has a form with a pointer and a scalar beside those with DSDs."""
_INTO_NUMBERS = frozenset((
    "mov16", "mov32", "fmovh", "fmovs", "faddh", "faddhs", "fadds", "fmaxh", "fmaxs", "fmulh",
    "fmuls", "fsubh", "fsubs", "fh2xp16", "fs2xp16",
))  # fmt: skip
"""What has a form with a pointer as its destination."""
_COMMUTATIVE = ("add", "and", "or", "xor", "fadd", "fmul", "fmax")
"""How the names of operations begin whose sources may change places."""


def _operation(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    needs_code(node, frame, f"'@{node.name}'")
    signature = _signatures(frame.world.session.half)[node.name]
    num_operands = 1 + signature.sources
    if len(node.arguments) not in (num_operands, num_operands + 1):
        frame.fail(
            node,
            f"'@{node.name}' takes {num_operands} operands and a struct of options, "
            f"got {len(node.arguments)} arguments",
        )
    values = [_value(node, at, signature, frame) for at in range(num_operands)]
    if len(node.arguments) > num_operands:
        options = argument(node, num_operands, frame)
        settings = Settings(options, node.arguments[num_operands], frame, f"'@{node.name}'")
    else:
        settings = Settings(VOID, node, frame, f"'@{node.name}'")
    configured = operation_settings(settings, frame)
    settings.finish(OPTIONS)
    _check_shapes(values, node, frame)
    name = _of_widths(node.name, values, node, frame)
    signature = _signatures(frame.world.session.half)[name]
    _check_async(values, configured, node, frame)
    _check_length(values, signature, node, frame)
    operands = tuple(
        [_operand(value, at, signature, node, frame) for at, value in enumerate(values)]
    )
    builder = frame.builder
    assert builder is not None
    dest = builder.register(M_BOOL)
    builder.emit(DsdOperation(dest, name, operands, configured, frame.position(node)))
    return Runtime(t.BOOL, dest)


for _name in _signatures(t.F16):
    if _name != "faddsh":
        builtin(_name, 2, MANY)(_operation)


def _of_widths(name: str, values: list[Value], node: tree.BuiltinCall, frame: Frame) -> str:
    """The operation that `@faddhs` is: of 16 + 32 bits, or `faddsh` of 32 + 16.

    A scalar says which; of two streams the fabric knows. A pointer as the destination adds numbers
    of 16 bits to one of 32.
    """
    if name != "faddhs":
        return name
    first, second = values[1:]
    widths = [_known_width(first), _known_width(second)]
    if not is_stepping(first.type):
        is_sum = isinstance(values[0].type, t.PointerType)
        widths[0] = 4 if is_sum or first.type is t.F32 else 2
    elif not is_stepping(second.type):
        widths[1] = 4 if second.type is t.F32 else 2
    if widths[0] and widths[0] == widths[1]:
        bits = 8 * widths[0]
        frame.fail(node, f"'@faddhs' adds numbers of 16 and of 32 bits; both of these have {bits}")
    return "faddsh" if widths[0] == 4 or widths[1] == 2 else name


def _known_width(value: Value) -> int | None:
    """The bytes of the elements of a DSD in memory that is known."""
    descriptor = value.value if isinstance(value, Const) else None
    return descriptor.element_bytes if isinstance(descriptor, MemoryDescriptor) else None


def _value(node: tree.BuiltinCall, at: int, signature: _Signature, frame: Frame) -> Value:
    expected = None if at == 0 or node.name == "faddhs" else _scalar_type(signature, at)
    return argument(node, at, frame, expected)


def _scalar_type(signature: _Signature, at: int) -> Type:
    """The type of a scalar source."""
    if signature.last is not None and at == signature.sources:
        return signature.last
    return signature.scalar


def is_stepping(type_: Type) -> bool:
    """Whether an operand is a DSD, a DSR or a FIFO."""
    return isinstance(type_, t.DsdType | t.DsrType) or type_ is t.FIFO


def _check_shapes(values: list[Value], node: tree.BuiltinCall, frame: Frame) -> None:
    """Which operands may be DSDs, pointers and scalars."""
    destination, sources = values[0], values[1:]
    if node.name in _SCALAR_ONLY:
        _check_destination(destination, node, frame, pointer_only=True)
        return
    _check_destination(destination, node, frame, pointer_only=False)
    _check_steps(destination, sources, node, frame)
    for at, value in enumerate(values):
        if value.type.name == "circbuf_dsd":
            frame.fail(node.arguments[at], "a circbuf_dsd is used through a DSR and an XDSR")
    for at, source in enumerate(sources, 1):
        _check_source(source, node.arguments[at], frame)
    fabric = [value for value in sources if value.type.name == "fabin_dsd"]
    if len(fabric) > 1 and frame.world.session.is_wse3:
        frame.fail(node, "an operation of wse3 reads from one fabin_dsd at most")
    if len(sources) > 1 and sources[0].type is t.FIFO:
        can_swap = node.name.startswith(_COMMUTATIVE)
        remedy = "give it second" if can_swap else "move what it has to memory first"
        frame.fail(node.arguments[1], f"a FIFO is not the first source of '@{node.name}'; {remedy}")
    if destination.type is t.FIFO and node.name.startswith("f") and len(sources) > 2:
        frame.fail(node.arguments[0], "a FIFO is not the destination of a fused operation")


def _check_steps(
    destination: Value, sources: list[Value], node: tree.BuiltinCall, frame: Frame
) -> None:
    """Something says how often an operation takes place: a DSD, of two sources one of them."""
    stepping = [is_stepping(source.type) for source in sources]
    needs_dsd = node.name not in _ALSO_SCALAR
    if needs_dsd and not is_stepping(destination.type) and not any(stepping):
        frame.fail(node, f"'@{node.name}' needs a DSD among its operands")
    if len(sources) == 2 and not any(stepping):
        frame.fail(node, f"'@{node.name}' needs a DSD among its sources")
    if node.name.startswith("fmac") and stepping[-1]:
        frame.fail(node.arguments[-1], "the factor of a fused operation is a scalar")


def _check_destination(
    value: Value, node: tree.BuiltinCall, frame: Frame, *, pointer_only: bool
) -> None:
    where = node.arguments[0]
    type_ = value.type
    if isinstance(type_, t.PointerType):
        if type_.const:
            frame.fail(where, f"the destination of '@{node.name}' is constant")
        if not pointer_only and node.name not in _INTO_NUMBERS:
            frame.fail(where, f"the destination of '@{node.name}' is a DSD, not a pointer")
        return
    if pointer_only or not is_stepping(type_):
        kinds = "a pointer" if pointer_only else "a DSD, a DSR, a FIFO or a pointer"
        frame.fail(where, f"the destination of '@{node.name}' is {kinds}, not '{type_}'")
    if type_.name == "fabin_dsd":
        frame.fail(where, "a fabin_dsd cannot be a destination")
    if _dsr_kind(value) is DsrKind.SRC1:
        frame.fail(where, "a 'dsr_src1' cannot be a destination")


def _dsr_kind(value: Value) -> DsrKind | None:
    if isinstance(value, Const) and isinstance(value.value, Dsr):
        return value.value.kind
    return None


def _check_source(value: Value, where: tree.Node, frame: Frame) -> None:
    if value.type.name == "fabout_dsd":
        frame.fail(where, "a fabout_dsd cannot be a source")
    if _dsr_kind(value) is DsrKind.DEST:
        frame.fail(where, "a 'dsr_dest' cannot be a source")


def _check_async(
    values: list[Value], configured: OperationSettings, node: tree.BuiltinCall, frame: Frame
) -> None:
    if not configured.asynchronous:
        return
    is_fabric = any(
        value.type.name in ("fabin_dsd", "fabout_dsd") or isinstance(value.type, t.DsrType)
        for value in values
    )
    if not is_fabric:
        frame.fail(node, "'.async' needs a fabric DSD or a DSR among the operands")
    _warn_of_options(values, configured, node, frame)


def _warn_of_options(
    values: list[Value], configured: OperationSettings, node: tree.BuiltinCall, frame: Frame
) -> None:
    """Tell what an operation on DSRs alone says in vain: what was loaded says how it runs."""
    if not all(isinstance(v.type, t.DsrType) for v in values if is_stepping(v.type)):
        return
    said = f".{configured.completion}" if configured.completion else ".on_control"
    if configured.completion or configured.on_control:
        frame.warn(
            node.arguments[-1],
            f"'{said}' has no effect here, where DSRs are the operands; give it to '@load_to_dsr'",
        )


def _check_length(
    values: list[Value], signature: _Signature, node: tree.BuiltinCall, frame: Frame
) -> None:
    """The operand whose length counts, the first source or else the destination, fits its array.

    The others should be as long: the program is told of those that are not.
    """
    warn_of_lengths(values, node, frame)
    at = next((at for at, value in enumerate(values) if at and is_stepping(value.type)), 0)
    wanted = _scalar_type(signature, at) if at else signature.destination
    check_extent(values[at], t.size_of(wanted), node.arguments[at], frame)


def _operand(
    value: Value, at: int, signature: _Signature, node: tree.BuiltinCall, frame: Frame
) -> DsdOperand:
    """An operand of the instruction."""
    where = node.arguments[at]
    type_ = value.type
    if isinstance(type_, t.DsrType) or type_ is t.FIFO:
        assert isinstance(value, Const)
        found: DsdOperand = value.value
        if type_.name in KINDS:
            assert isinstance(frame.world, TileWorld)
            frame.world.fifo_registers.used.setdefault(value.value, (frame, where))
        return found
    if isinstance(type_, t.DsdType):
        return _scalar(value, where, frame)
    if isinstance(type_, t.PointerType):
        target = type_.target.element if isinstance(type_.target, t.ArrayType) else type_.target
        wanted = signature.destination if at == 0 else _scalar_type(signature, at)
        if t.size_of(target) != t.size_of(wanted):
            frame.fail(where, f"'@{node.name}' needs a pointer to '{wanted}', got '{type_}'")
        return Place(operand_of(value, where, frame))
    wanted = _scalar_type(signature, at)
    value = _either_sign(value, wanted, where, frame)
    if _has_same_bits(value.type, wanted, moves=node.name in ("mov16", "mov32")):
        return _scalar(value, where, frame)
    return _scalar(coerce(value, wanted, where, frame, f"'@{node.name}'"), where, frame)


def _either_sign(value: Value, wanted: Type, where: tree.Node, frame: Frame) -> Value:
    """An integer for an operation on bits: negative literals and narrow signed numbers fit."""
    type_ = value.type
    if not isinstance(wanted, t.IntType) or wanted.signed:
        return value
    signed = t.int_type(wanted.bits, True)
    is_negative = type_ is t.COMPTIME_INT and isinstance(value, Const) and value.value < 0
    is_narrow = isinstance(type_, t.IntType) and type_.signed and type_.bits < wanted.bits
    if is_negative or is_narrow:
        return coerce(value, signed, where, frame, "operand")
    return value


def _has_same_bits(type_: Type, wanted: Type, *, moves: bool) -> bool:
    """Whether a scalar fits as it is: a move takes any, integer operations either sign."""
    machine, other = type_.machine, wanted.machine
    if not isinstance(machine, Scalar) or not isinstance(other, Scalar):
        return False
    are_integers = isinstance(type_, t.IntType | t.HandleType) and isinstance(wanted, t.IntType)
    return machine.bits == other.bits and (moves or are_integers)


def _scalar(value: Value, where: tree.Node, frame: Frame) -> DsdOperand:
    operand = operand_of(value, where, frame)
    assert not isinstance(operand, FunctionAddress)
    return operand


def _descriptor(value: Value, op_bytes: int, where: tree.Node, frame: Frame) -> DsdOperand:
    check_extent(value, op_bytes, where, frame)
    return _scalar(value, where, frame)


# @map


@builtin("map", 2, MANY)
def _map(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    needs_code(node, frame, "'@map'")
    world = frame.world
    assert isinstance(world, TileWorld)
    function = known_argument(node, 0, frame, "the function of '@map'")
    if not isinstance(function.value, FunctionValue) or function.value.node.is_task:
        frame.fail(node.arguments[0], f"'@map' needs a function, got '{function.type}'")
    index = world.function_index(function.value, frame, node.arguments[0])
    signature = function.type
    if isinstance(signature, t.PointerType):
        signature = signature.target
    assert isinstance(signature, t.FunctionType)
    types = [type_ for type_ in signature.parameters if type_ is not None]
    has_output = signature.result is not t.VOID
    count = len(types) + has_output
    given = len(node.arguments) - 1
    if given not in (count, count + 1):
        more = " and a destination" if has_output else ""
        name = function.value.node.name
        frame.fail(node, f"'@map' of '{name}' takes {len(types)} inputs{more}, got {given}")
    inputs = tuple([_map_input(node, at + 1, type_, frame) for at, type_ in enumerate(types)])
    output = _map_output(node, len(types) + 1, signature.result, frame) if has_output else None
    ends = output is not None and not isinstance(output, Place)
    if not ends and not any(item.steps for item in inputs):
        frame.fail(node, "'@map' needs a DSD or DSR among its operands, which says when it ends")
    options = argument(node, count + 1, frame) if given > count else VOID
    settings = Settings(options, node.arguments[-1], frame, "'@map'")
    configured = operation_settings(settings, frame)
    settings.finish(OPTIONS)
    machine = signature.result.machine
    assert frame.builder is not None
    frame.builder.emit(
        Map(
            function=index,
            inputs=inputs,
            output=output,
            output_type=machine if isinstance(machine, Scalar) else None,
            asynchronous=configured.asynchronous,
            settings=configured,
            position=frame.position(node),
        )
    )
    return VOID


def _map_input(node: tree.BuiltinCall, at: int, type_: Type, frame: Frame) -> MapInput:
    where = node.arguments[at]
    machine = type_.machine
    if not isinstance(machine, Scalar):
        frame.fail(node.arguments[0], f"a function of '@map' cannot take a '{type_}'")
    value = argument(node, at, frame, type_)
    if value.type is t.FIFO:
        frame.fail(where, "a FIFO cannot be an operand of '@map'")
    if value.type.name == "fabout_dsd":
        frame.fail(where, "a fabout_dsd cannot be an input of '@map'")
    if isinstance(value.type, t.DsrType):
        assert isinstance(value, Const)
        return MapInput(value.value, machine, steps=True)
    if isinstance(value.type, t.DsdType):
        if machine.bits not in (16, 32):
            frame.fail(node.arguments[0], f"an element of '@map' has 16 or 32 bits, not '{type_}'")
        operand = _descriptor(value, machine.num_bytes, where, frame)
        return MapInput(operand, machine, steps=True)
    source = value.type
    if isinstance(source, t.PointerType) and source.target is type_:
        return MapInput(Place(operand_of(value, where, frame)), machine, steps=False)
    fitted = coerce(value, type_, where, frame, "'@map'")
    return MapInput(_scalar(fitted, where, frame), machine, steps=False)


def _map_output(node: tree.BuiltinCall, at: int, result: Type, frame: Frame) -> DsdOperand:
    where = node.arguments[at]
    value = argument(node, at, frame)
    type_ = value.type
    if is_poison(value):
        frame.silent()
    if isinstance(type_, t.PointerType):
        if type_.const or type_.target is not result:
            text = f"the destination of '@map' is a pointer '*{result}', not '{type_}'"
            frame.fail(where, text)
        return Place(operand_of(value, where, frame))
    if isinstance(type_, t.DsrType):
        assert isinstance(value, Const)
        found: DsdOperand = value.value
        return found
    if not isinstance(type_, t.DsdType) or type_.descriptor is DescriptorType.FABRIC_IN:
        frame.fail(where, f"the destination of '@map' is a DSD or a pointer, not '{type_}'")
    return _descriptor(value, t.size_of(result), where, frame)


@builtin("dfilt", 2)
def _dfilt(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    needs_code(node, frame, "'@dfilt'")
    source = argument(node, 0, frame)
    if source.type.name != "fabin_dsd":
        frame.fail(node.arguments[0], f"'@dfilt' needs a fabin_dsd, got '{source.type}'")
    settings = Settings(argument(node, 1, frame), node.arguments[1], frame, "'@dfilt'")
    for name in ("on_control", "index"):
        if settings.has(name):
            frame.fail(node.arguments[1], f"'@dfilt' has no '.{name}'")
    configured = operation_settings(settings, frame)
    settings.finish(OPTIONS)
    if not configured.asynchronous:
        frame.fail(node, "'@dfilt' needs '.async = true'")
    operand = _scalar(source, node.arguments[0], frame)
    assert frame.builder is not None
    dest = frame.builder.register(M_BOOL)
    frame.builder.emit(DsdOperation(dest, "dfilt", (operand,), configured, frame.position(node)))
    return Runtime(t.BOOL, dest)
