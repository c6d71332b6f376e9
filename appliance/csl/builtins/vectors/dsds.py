"""DSDs: `@get_dsd`, tensor accesses, and DSDs with one property changed."""

from dataclasses import replace

from appliance.csl.builtins.fabric.queues import chosen_of, priority_of
from appliance.csl.builtins.fabric.reserved import note_queue
from appliance.csl.builtins.registry import (
    Settings,
    argument,
    builtin,
    type_argument,
)
from appliance.csl.builtins.vectors.tensors import Walk, check_element, walk_of
from appliance.csl.program.operands import (
    CircularDescriptor,
    Descriptor,
    DescriptorConstant,
    FabricInDescriptor,
    FabricOutDescriptor,
    MemoryDescriptor,
    Operand,
    Register,
)
from appliance.csl.program.operations import DsdMake, DsdUpdate
from appliance.csl.program.types import DescriptorType, Scalar
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.access import load
from appliance.csl.semantics.expressions.evaluate import coerce, is_integer, operand_of
from appliance.csl.semantics.expressions.places import address_of, in_memory, place_of
from appliance.csl.semantics.results.tile import TileWorld, UsedQueue
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import Const, Runtime, Value, field_of
from appliance.csl.semantics.values.variables import Pointer
from appliance.csl.syntax import tree

_FABRIC_IN_OPTIONS = (
    *("extent", "input_queue", "fabric_color", "priority", "simd_mode", "control_transform"),
)
_FABRIC_OUT_OPTIONS = (
    *("extent", "output_queue", "fabric_color", "control", "wavelet_index_offset"),
    *("advance_switch", "zero", "priority", "simd_mode", "control_transform"),
)
_SIMD = ("simd_32", "simd_64", "simd_32_or_64", "simd_max", "simd_off")


@builtin("get_dsd", 2)
def _get_dsd(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    type_ = type_argument(node, 0, frame)
    if not isinstance(type_, t.DsdType):
        frame.fail(node.arguments[0], f"expected a DSD type, got '{type_}'")
    if not isinstance(frame.world, TileWorld):
        frame.fail(node, "a layout has no memory and no queues; '@get_dsd' is for PE code")
    kind = type_.descriptor
    properties = node.arguments[1]
    if kind in (DescriptorType.MEM1D, DescriptorType.MEM4D):
        return _memory(kind, node, properties, frame)
    settings = Settings(argument(node, 1, frame), properties, frame, f"'{type_}'")
    if kind is DescriptorType.CIRCULAR:
        return _circular(settings, node, frame)
    if kind is DescriptorType.FABRIC_IN:
        return _fabric_in(settings, node, frame)
    return _fabric_out(settings, node, frame)


# Memory.


def _memory(
    kind: DescriptorType, node: tree.BuiltinCall, properties: tree.Expression, frame: Frame
) -> Value:
    walk, index_offset = walk_of(properties, frame, kind)
    rank = len(walk.extents)
    if kind is DescriptorType.MEM1D and rank != 1:
        frame.fail(properties, f"a mem1d_dsd has one dimension, got {rank}; use mem4d_dsd")
    if not 1 <= rank <= 4:
        frame.fail(properties, f"a mem4d_dsd has 1 to 4 dimensions, got {rank}")
    element_bytes = t.stride_of(walk.element)
    known = (
        isinstance(walk.base, Const)
        and isinstance(walk.offset, Const)
        and all(isinstance(item, Const) for item in (*walk.extents, *walk.strides))
    )
    if known:
        return Const(t.DSD[kind], _memory_descriptor(walk, element_bytes, index_offset))
    template = MemoryDescriptor(
        base=0, element_bytes=element_bytes, offset=0, extents=(0,) * rank, strides=(0,) * rank,
        wavelet_index_offset=index_offset,
    )  # fmt: skip
    return _made(kind, template, walk, node, frame)


def _memory_descriptor(walk: Walk, element_bytes: int, index_offset: bool) -> MemoryDescriptor:
    assert isinstance(walk.base, Const)
    assert isinstance(walk.offset, Const)
    pointer: Pointer = walk.base.value
    address = pointer.address
    return MemoryDescriptor(
        base=address.address,
        element_bytes=element_bytes,
        offset=walk.offset.value,
        extents=tuple([item.value for item in walk.extents if isinstance(item, Const)]),
        strides=tuple([item.value for item in walk.strides if isinstance(item, Const)]),
        wavelet_index_offset=index_offset,
        symbol=address.symbol,
    )


def _made(
    kind: DescriptorType,
    template: Descriptor,
    walk: Walk | None,
    node: tree.BuiltinCall,
    frame: Frame,
    *,
    extent: Value | None = None,
    color: Value | None = None,
) -> Value:
    """A DSD of which something is computed at run time."""
    builder = frame.builder
    assert builder is not None, "what is evaluated at compile time is known"
    dest = builder.register(kind)

    def operand(value: Value | None, type_: Type) -> Operand | None:
        if value is None:
            return None
        return operand_of(coerce(value, type_, node, frame, "property"), node, frame)

    extents: tuple[Value, ...] = walk.extents if walk else (extent,) if extent else ()
    strides: tuple[Value, ...] = walk.strides if walk else ()
    builder.emit(
        DsdMake(
            dest=dest,
            type=kind,
            template=DescriptorConstant(template),
            base=operand_of(walk.base, node, frame) if walk else None,
            offset=operand(walk.offset, t.I16) if walk else None,
            extents=tuple([operand_of(as_u16(v, node, frame), node, frame) for v in extents]),
            strides=tuple([operand_of(_as_i16(v, node, frame), node, frame) for v in strides]),
            color=None if color is None else operand_of(color, node, frame),
            position=frame.position(node),
        )
    )
    return Runtime(t.DSD[kind], dest)


def as_u16(value: Value, node: tree.Node, frame: Frame) -> Value:
    """A length: any integer, cut to 16 bits."""
    return _as_bits(value, t.U16, node, frame)


def _as_i16(value: Value, node: tree.Node, frame: Frame) -> Value:
    return _as_bits(value, t.I16, node, frame)


def _as_bits(value: Value, to: t.IntType, node: tree.Node, frame: Frame) -> Value:
    if not is_integer(value.type):
        frame.fail(node, f"expected type '{to}', got: '{value.type}'")
    if isinstance(value, Const):
        return coerce(Const(t.COMPTIME_INT, value.value), to, node, frame, "property")
    source = value.type.machine
    assert isinstance(source, Scalar)
    assert frame.builder is not None
    assert isinstance(to.machine, Scalar)
    if source == to.machine:
        return value
    operand = operand_of(value, node, frame)
    return Runtime(to, frame.builder.convert(operand, source, to.machine, frame.position(node)))


def _circular(settings: Settings, node: tree.BuiltinCall, frame: Frame) -> Value:
    base = settings.take_known("base_address")
    extent, wraparound = settings.take_int("extent"), settings.take_int("wraparound")
    start = settings.take_int("offset") or 0
    settings.finish(("base_address", "extent", "wraparound", "offset"))
    if base is None or not isinstance(base.type, t.PointerType) or extent is None:
        frame.fail(node, "a circbuf_dsd needs '.base_address' (a pointer) and '.extent'")
    target = base.type.target
    element = target.element if isinstance(target, t.ArrayType) else target
    check_element(element, node, frame)
    if wraparound is None:
        if not isinstance(target, t.ArrayType):
            frame.fail(node, f"'.wraparound' is not known from '{base.type}'; give it")
        wraparound = target.count
    address = base.value.address
    descriptor = CircularDescriptor(
        base=address.address, element_bytes=t.stride_of(element), start=start, extent=extent,
        wraparound=wraparound, symbol=address.symbol,
    )  # fmt: skip
    return Const(t.DSD[DescriptorType.CIRCULAR], descriptor)


# Fabric.


def _simd(settings: Settings, frame: Frame) -> str:
    value = settings.take_known("simd_mode")
    if value is None:
        return "default"
    return chosen_of(value, _SIMD, settings.node, frame, "'.simd_mode'")


def _queue(settings: Settings, name: str, type_: Type, frame: Frame) -> int | None:
    value = settings.take_known(name)
    if value is None:
        return None
    if value.type is not type_:
        frame.fail(settings.node, f"'.{name}': expected type '{type_}', got: '{value.type}'")
    number: int = value.value
    return number


def _color(settings: Settings, frame: Frame) -> Value | None:
    value = settings.take("fabric_color")
    if value is None:
        return None
    if value.type is not t.COLOR:
        frame.fail(settings.node, f"'.fabric_color': expected type 'color', got: '{value.type}'")
    return value


def _extent(settings: Settings, node: tree.BuiltinCall, frame: Frame) -> Value:
    value = settings.take("extent")
    if value is None:
        frame.fail(node, f"{settings.what} needs '.extent'")
    return as_u16(value, settings.node, frame)


def _fabric_in(settings: Settings, node: tree.BuiltinCall, frame: Frame) -> Value:
    settings.check_machine("priority", "wse3")
    extent = _extent(settings, node, frame)
    queue = _queue(settings, "input_queue", t.INPUT_QUEUE, frame)
    color = _color(settings, frame)
    if color is not None and not isinstance(color, Const):
        if queue is None:
            what = "'.fabric_color' of a fabin_dsd without '.input_queue'"
            frame.fail(settings.node, f"{what} must be known at compile time")
        color = None
    session = frame.world.session
    if queue is None and (color is None or session.is_wse3 or session.options.dialect == "2.10"):
        frame.fail(node, "a fabin_dsd needs '.input_queue'")
    if queue is not None and color is not None:
        frame.deprecated(node, "'.fabric_color' of a fabin_dsd; its queue has the color")
    template = FabricInDescriptor(
        queue=queue,
        color=None if color is None else color.value,
        extent=extent.value if isinstance(extent, Const) else 0,
        priority=priority_of(settings, settings.node, frame),
        simd_mode=_simd(settings, frame),
        control_transform=_transform(settings, frame),
    )
    settings.finish(_FABRIC_IN_OPTIONS)
    _note_queue(frame, node, queue, template.color, output=False)
    if isinstance(extent, Const):
        return Const(t.DSD[DescriptorType.FABRIC_IN], template)
    return _made(DescriptorType.FABRIC_IN, template, None, node, frame, extent=extent)


def _transform(settings: Settings, frame: Frame) -> bool:
    transforms = settings.take_bool("control_transform")
    world = frame.world
    assert isinstance(world, TileWorld)
    world.has_control_transform = world.has_control_transform or transforms
    return transforms


def _note_queue(
    frame: Frame, node: tree.Node, queue: int | None, color: int | None, *, output: bool
) -> None:
    """Remembers which queue a DSD uses: one that nothing initialises gets the DSD's color."""
    world = frame.world
    assert isinstance(world, TileWorld)
    if queue is not None:
        note_queue(queue, node, frame, output=output)
    used = UsedQueue(output, queue, color, frame, node)
    world.used_queues.setdefault((output, queue, color), used)


def _fabric_out(settings: Settings, node: tree.BuiltinCall, frame: Frame) -> Value:
    settings.check_machine("priority", "wse3")
    extent = _extent(settings, node, frame)
    queue = _queue(settings, "output_queue", t.OUTPUT_QUEUE, frame)
    color = _color(settings, frame)
    is_wse3 = frame.world.session.is_wse3
    if color is None and not is_wse3:
        frame.fail(node, "a fabout_dsd of wse2 needs '.fabric_color'")
    if queue is None and is_wse3:
        frame.fail(node, "a fabout_dsd of wse3 needs '.output_queue'")
    if color is not None and is_wse3:
        frame.deprecated(node, "'.fabric_color' of a fabout_dsd of wse3; its queue has the color")
    zero = settings.take_known("zero")
    if _is_set(zero, "first_source") and _is_set(zero, "second_source"):
        frame.fail(node, "'.zero' is of '.first_source' or of '.second_source', not of both")
    number = color.value if isinstance(color, Const) else None
    template = FabricOutDescriptor(
        queue=queue,
        color=None if is_wse3 else number,
        extent=extent.value if isinstance(extent, Const) else 0,
        control=settings.take_bool("control"),
        wavelet_index_offset=settings.take_bool("wavelet_index_offset"),
        advance_switch=settings.take_bool("advance_switch"),
        zero_first_source=_is_set(zero, "first_source"),
        zero_second_source=_is_set(zero, "second_source"),
        priority=priority_of(settings, settings.node, frame),
        simd_mode=_simd(settings, frame),
        control_transform=_transform(settings, frame),
    )
    settings.finish(_FABRIC_OUT_OPTIONS)
    _note_queue(frame, node, queue, number, output=True)
    runtime_color = color if isinstance(color, Runtime) and not is_wse3 else None
    if isinstance(extent, Const) and runtime_color is None:
        return Const(t.DSD[DescriptorType.FABRIC_OUT], template)
    return _made(
        DescriptorType.FABRIC_OUT, template, None, node, frame, extent=extent, color=runtime_color
    )


def _is_set(value: Const | None, name: str) -> bool:
    found = None if value is None else field_of(value, name)
    return isinstance(found, Const) and found.value is True


# DSDs with one property changed.


@builtin("set_dsd_length", 2)
def _set_length(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    dsd = _dsd(node, frame)
    length = as_u16(argument(node, 1, frame, t.U16), node.arguments[1], frame)
    if dsd.type is t.DSD[DescriptorType.MEM4D]:
        frame.fail(node, "'@set_dsd_length' does not apply to a mem4d_dsd")
    if isinstance(dsd, Const) and isinstance(length, Const):
        descriptor = dsd.value
        if isinstance(descriptor, MemoryDescriptor):
            return Const(dsd.type, replace(descriptor, extents=(length.value,)))
        return Const(dsd.type, replace(descriptor, extent=length.value))
    return _updated(dsd, "length", length, 0, node, frame)


def _dsd(node: tree.BuiltinCall, frame: Frame) -> Value:
    value = argument(node, 0, frame)
    if not isinstance(value.type, t.DsdType):
        frame.fail(node.arguments[0], f"'@{node.name}' needs a DSD, got '{value.type}'")
    return value


def _memory_dsd(node: tree.BuiltinCall, frame: Frame) -> Value:
    value = _dsd(node, frame)
    assert isinstance(value.type, t.DsdType)
    if value.type.descriptor in (DescriptorType.FABRIC_IN, DescriptorType.FABRIC_OUT):
        frame.fail(node.arguments[0], f"'@{node.name}' needs a memory DSD, got '{value.type}'")
    return value


def _updated(
    dsd: Value, field: str, value: Value, element_bytes: int, node: tree.BuiltinCall, frame: Frame
) -> Value:
    builder = frame.builder
    assert builder is not None, "what is evaluated at compile time is known"
    assert isinstance(dsd.type, t.DsdType)
    kind = dsd.type.descriptor
    dest: Register = builder.register(kind)
    source, change = operand_of(dsd, node, frame), operand_of(value, node, frame)
    position = frame.position(node)
    builder.emit(DsdUpdate(dest, source, kind, field, change, element_bytes, position))
    return Runtime(dsd.type, dest)


@builtin("set_dsd_base_addr", 2)
def _set_base(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    dsd = _memory_dsd(node, frame)
    pointer, element = base_of(node.arguments[1], frame)
    element_bytes = t.stride_of(element)
    if isinstance(dsd, Const) and isinstance(pointer, Const):
        address = pointer.value.address
        changed = replace(
            dsd.value,
            base=address.address,
            symbol=address.symbol,
            element_bytes=element_bytes,
            **({"offset": 0} if isinstance(dsd.value, MemoryDescriptor) else {"start": 0}),
        )
        return Const(dsd.type, changed)
    return _updated(dsd, "base", pointer, element_bytes, node, frame)


def base_of(node: tree.Expression, frame: Frame) -> tuple[Value, Type]:
    """An array, or a pointer to one or to elements: the address and the element's type."""
    place = place_of(node, frame)
    type_ = place.type
    if isinstance(type_, t.ArrayType):
        return address_of(in_memory(place, node, frame), node, frame), type_.element
    if not isinstance(type_, t.PointerType):
        if type_ is t.POISON:
            frame.silent()
        frame.fail(node, f"expected an array or a pointer, got '{type_}'")
    target = type_.target
    element = target.element if isinstance(target, t.ArrayType) else target
    return load(place, node, frame), element


@builtin("set_dsd_stride", 2)
def _set_stride(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    dsd = _memory_dsd(node, frame)
    stride = coerce(argument(node, 1, frame, t.I8), t.I8, node.arguments[1], frame, "stride")
    if dsd.type is not t.DSD[DescriptorType.MEM1D]:
        frame.fail(node, f"'@set_dsd_stride' does not apply to a '{dsd.type}'")
    if isinstance(dsd, Const) and isinstance(stride, Const):
        return Const(dsd.type, replace(dsd.value, strides=(stride.value,)))
    return _updated(dsd, "stride", stride, 0, node, frame)


@builtin("increment_dsd_offset", 3)
def _increment_offset(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    dsd = _memory_dsd(node, frame)
    step = _as_i16(argument(node, 1, frame, t.I16), node.arguments[1], frame)
    element = type_argument(node, 2, frame)
    if element.machine is None:
        frame.fail(node.arguments[2], f"'{element}' is not the type of an element")
    element_bytes = t.stride_of(element)
    known = isinstance(dsd, Const) and isinstance(step, Const)
    if known and isinstance(dsd.value, MemoryDescriptor):  # type: ignore[union-attr] # a Const
        assert isinstance(dsd, Const)
        assert isinstance(step, Const)
        return Const(dsd.type, _advanced(dsd.value, step.value * element_bytes))
    return _updated(dsd, "advance", step, element_bytes, node, frame)


def _advanced(dsd: MemoryDescriptor, num_bytes: int) -> MemoryDescriptor:
    """A DSD that begins so many bytes further; its base stays in the array, which it names."""
    steps, rest = divmod(num_bytes, dsd.element_bytes)
    return replace(dsd, base=dsd.base + rest, offset=dsd.offset + steps)
