"""DSRs and FIFOs."""

from appliance.csl.builtins.fabric.queues import priority_of
from appliance.csl.builtins.fabric.tasks import activated
from appliance.csl.builtins.registry import (
    Settings,
    argument,
    builtin,
    code_world,
    int_argument,
    known_argument,
    settings_argument,
    tile_world,
    type_argument,
)
from appliance.csl.builtins.vectors.dsds import as_u16
from appliance.csl.builtins.vectors.settings import OPTIONS, operation_settings
from appliance.csl.program.code import Fifo, InitialDsrLoad
from appliance.csl.program.operands import (
    Constant,
    Dsr,
    DsrKind,
    FifoReference,
    MemoryDescriptor,
)
from appliance.csl.program.operations import Intrinsic, LoadDsr, Target
from appliance.csl.program.types import POINTER
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.evaluate import needs_code, operand_of
from appliance.csl.semantics.expressions.places import address_of, in_memory, place_of
from appliance.csl.semantics.results.fifos import KINDS, FifoRegisters
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import Place
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import VOID, Const, Value, field_of
from appliance.csl.syntax import tree

MAX_DSR = 47
"""As many of each file as a PE of the fabric has."""
FIFO_ALIGNMENT = 4
"""In bytes; `<tile_config>` says it too."""
_FIFO_OPTIONS = (
    *("activate_pop", "activate_push", "empty_action", "full_action", "priority", "simd_mode"),
    *("dest", "src", "xdsr"),
)
_FIFO_REGISTERS = {"dest": "dsr_dest", "src": "dsr_src1", "xdsr": "xdsr"}
_ACTIONS = ("test_or_suspend", "terminate", "suspend", "fault")


@builtin("get_dsr", 2)
def _get_dsr(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    type_ = type_argument(node, 0, frame)
    if not isinstance(type_, t.DsrType) or type_.name in ("xdsr", "sr"):
        frame.fail(node.arguments[0], f"expected a DSR type, got '{type_}'")
    if type_.name in KINDS:
        given = argument(node, 1, frame)
        if isinstance(given.type, t.DsrType):
            return _fifo_dsr(type_, given, node, frame)
    return _dsr(type_, int_argument(node, 1, frame, "the number of a DSR"), node, frame)


def _fifo_dsr(type_: Type, given: Value, node: tree.BuiltinCall, frame: Frame) -> Const:
    """The DSR of a FIFO by the plain one in which it is."""
    if given.type.name != KINDS[type_.name]:
        text = f"'{type_}' is of a '{KINDS[type_.name]}', not of a '{given.type}'"
        frame.fail(node.arguments[1], text)
    assert isinstance(given, Const)
    return Const(type_, given.value)


def _dsr(type_: Type, number: int, node: tree.BuiltinCall, frame: Frame) -> Value:
    if not 0 <= number <= MAX_DSR:
        frame.fail(node.arguments[-1], f"DSR {number} is outside 0 to {MAX_DSR}")
    kind = KINDS.get(type_.name) or DsrKind(type_.name)
    return Const(type_, Dsr(kind, number))


@builtin("get_xdsr", 1)
def _get_xdsr(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return _dsr(t.NAMED["xdsr"], int_argument(node, 0, frame, "a number"), node, frame)


@builtin("get_sr", 1)
def _get_sr(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return _dsr(t.NAMED["sr"], int_argument(node, 0, frame, "a number"), node, frame)


@builtin("load_to_dsr", 2, 3)
def _load_to_dsr(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return _load(node, frame, 1, 2, ())


@builtin("load_to_dsr_xdsr", 3, 4)
def _load_xdsr(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return _load(node, frame, 2, 3, ("xdsr",))


@builtin("load_to_dsr_xdsr_sr", 4, 5)
def _load_xdsr_sr(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return _load(node, frame, 3, 4, ("xdsr", "sr"))


def _load(
    node: tree.BuiltinCall, frame: Frame, at: int, settings_at: int, more: tuple[str, ...]
) -> Value:
    world = code_world(node, frame)
    dsr = known_argument(node, 0, frame, "a DSR")
    if not isinstance(dsr.type, t.DsrType):
        frame.fail(node.arguments[0], f"expected a DSR, got '{dsr.type}'")
    if dsr.type.name in KINDS:
        text = f"a '{dsr.type}' is not loaded; '@allocate_fifo' puts the FIFO there"
        frame.fail(node.arguments[0], text)
    world.fifo_registers.loaded.setdefault(dsr.value, (frame, node))
    extra: dict[str, Dsr] = {}
    registers = [
        known_argument(node, place, frame, f"an {name}") for place, name in enumerate(more, 1)
    ]
    for place, (name, register) in enumerate(zip(more, registers, strict=True), 1):
        for item in _several(register) if name == "sr" else (register,):
            if item.type is not t.NAMED[name]:
                frame.fail(node.arguments[place], f"expected type '{name}', got: '{item.type}'")
            extra.setdefault(name, item.value)
    dsd = argument(node, at, frame)
    if not isinstance(dsd.type, t.DsdType):
        frame.fail(node.arguments[at], f"expected a DSD, got '{dsd.type}'")
    _check_kind(dsr, dsd, node.arguments[at], frame)
    _check_registers(dsd, node, node.arguments[at], more, frame)
    if "sr" in more:
        _check_strides(registers[-1], dsd, node.arguments[2], frame)
    settings = settings_argument(node, settings_at, frame, f"'@{node.name}'")
    _check_options(dsd, settings, frame)
    save_address = settings.take_bool("save_address")
    single_step = settings.take_bool("single_step")
    configured = operation_settings(settings, frame)
    settings.finish((*OPTIONS, "save_address", "single_step"))
    position = frame.position(node)
    source = operand_of(dsd, node, frame)
    if frame.builder is None:
        world.dsr_loads.append(
            InitialDsrLoad(dsr.value, source, configured, save_address, single_step, position)
        )
        return VOID
    frame.builder.emit(
        LoadDsr(
            dsr.value, source, configured, save_address, single_step,
            extra.get("xdsr"), extra.get("sr"), position,
        )
    )  # fmt: skip
    return VOID


def _several(register: Const) -> tuple[Const, ...]:
    """The stride registers of a tuple, or the one that stands for all."""
    if not isinstance(register.type, t.StructType):
        return (register,)
    found: tuple[Const, ...] = register.value
    return found


def _check_strides(register: Const, dsd: Value, node: tree.Node, frame: Frame) -> None:
    """A tuple has a register for each stride that needs one: all but the first dimension's.

    Nor needs that of the second one if the first goes from word to word.
    """
    if not isinstance(register.type, t.StructType):
        return
    needed = 3
    descriptor = dsd.value if isinstance(dsd, Const) else None
    if isinstance(descriptor, MemoryDescriptor):
        many = len(descriptor.extents)
        needed = max(many - 1 - (descriptor.strides[-1] == 1), 0)
    if len(register.value) != needed:
        plural = "" if needed == 1 else "s"
        text = f"this mem4d_dsd needs {needed} stride register{plural}, got {len(register.value)}"
        frame.fail(node, text)


def _check_kind(dsr: Const, dsd: Value, node: tree.Node, frame: Frame) -> None:
    """A destination cannot be read from the fabric, nor a source written to it."""
    kind: DsrKind = dsr.value.kind
    if dsd.type.name == "fabin_dsd" and kind is DsrKind.DEST:
        frame.fail(node, "a fabin_dsd cannot be in a 'dsr_dest'")
    if dsd.type.name == "fabout_dsd" and kind is not DsrKind.DEST:
        frame.fail(node, f"a fabout_dsd cannot be in a '{dsr.type}'; it needs a 'dsr_dest'")


def _check_registers(
    dsd: Value, node: tree.BuiltinCall, where: tree.Node, more: tuple[str, ...], frame: Frame
) -> None:
    """Circular buffers need an XDSR; in 2.10 four dimensions need an XDSR and an SR."""
    if dsd.type.name == "circbuf_dsd" and not more:
        frame.fail(where, f"a circbuf_dsd needs an XDSR: '@load_to_dsr_xdsr', not '@{node.name}'")
    if "xdsr" in more and dsd.type.name == "mem1d_dsd":
        frame.fail(where, f"a mem1d_dsd needs '@load_to_dsr', not '@{node.name}'")
    is_new = frame.world.session.options.dialect == "2.10"
    if dsd.type.name == "mem4d_dsd" and "sr" not in more and is_new:
        frame.fail(where, f"a mem4d_dsd needs '@load_to_dsr_xdsr_sr', not '@{node.name}'")


def _check_options(dsd: Value, settings: Settings, frame: Frame) -> None:
    """Only memory has addresses."""
    if dsd.type.name in ("fabin_dsd", "fabout_dsd") and settings.has("save_address"):
        frame.fail(settings.node, f"'.save_address' is for a memory DSD, not a '{dsd.type}'")


def _check_buffer(place: Place, pointer: Value, node: tree.Node, frame: Frame) -> None:
    """The buffer of a FIFO is written."""
    type_ = pointer.type
    if isinstance(type_, t.PointerType) and type_.const:
        frame.fail(node, f"the buffer of a FIFO is a variable, not a constant '{place.type}'")
    variable = pointer.value.variable if isinstance(pointer, Const) else None
    given = variable.given_alignment if variable is not None else None
    if given is not None and given < FIFO_ALIGNMENT:
        text = f"the buffer of a FIFO is aligned to {FIFO_ALIGNMENT} bytes at least, not to {given}"
        frame.fail(node, text)


@builtin("allocate_fifo", 1, 2)
def _allocate_fifo(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = tile_world(node, frame)
    place = place_of(node.arguments[0], frame)
    type_ = place.type
    if isinstance(type_, t.PointerType) and isinstance(type_.target, t.ArrayType):
        pointer: Value = known_argument(node, 0, frame, "the buffer of a FIFO")
        array = type_.target
    elif isinstance(type_, t.ArrayType):
        pointer = address_of(in_memory(place, node, frame), node, frame)
        array = type_
    else:
        frame.fail(node.arguments[0], f"the buffer of a FIFO is an array, not '{type_}'")
    _check_buffer(place, pointer, node.arguments[0], frame)
    element_bytes = t.size_of(array.element)
    width = t.bit_width(array.element)
    if width not in (16, 32) or not isinstance(pointer, Const):
        frame.fail(node.arguments[0], f"a FIFO has 16- or 32-bit elements, not '{array.element}'")
    settings = settings_argument(node, 1, frame, "'@allocate_fifo'")
    reference = FifoReference(len(world.fifos))
    for dsr in _fifo_registers(settings, world.fifo_registers, frame):
        world.fifo_registers.held[dsr] = reference
    world.fifos.append(_fifo(settings, pointer, array, element_bytes, node, frame))
    return Const(t.FIFO, reference)


def _fifo_registers(settings: Settings, used: FifoRegisters, frame: Frame) -> tuple[Dsr, ...]:
    """The DSRs that the program gives a FIFO: none, or one of each file with one number."""
    given = {name: settings.take_known(name) for name in _FIFO_REGISTERS}
    if all(value is None for value in given.values()):
        return ()
    dsrs = list[Dsr]()
    for name, value in given.items():
        if value is None:
            frame.fail(settings.node, "'.dest', '.src' and '.xdsr' are given together")
        if value.type.name != _FIFO_REGISTERS[name]:
            text = f"'.{name}': expected type '{_FIFO_REGISTERS[name]}', got: '{value.type}'"
            frame.fail(settings.node, text)
        dsrs.append(value.value)
    dest, source, _ = dsrs
    if dest.number != source.number:
        text = f"'.dest' is DSR {dest.number} and '.src' is {source.number}; they have one number"
        frame.fail(settings.node, text)
    if dest in used.held:
        frame.fail(settings.node, f"DSR {dest.number} holds another FIFO already")
    return (dest, source)


def _fifo(
    settings: Settings,
    pointer: Const,
    array: t.ArrayType,
    element_bytes: int,
    node: tree.BuiltinCall,
    frame: Frame,
) -> Fifo:
    for name, architecture in (
        ("simd_mode", "wse2"), ("priority", "wse3"), ("full_action", "wse3"),
    ):  # fmt: skip
        settings.check_machine(name, architecture)
    settings.take_known("simd_mode")
    pop, push = settings.take("activate_pop"), settings.take("activate_push")
    empty, full = settings.take_known("empty_action"), settings.take_known("full_action")
    found = Fifo(
        name="fifo",
        address=pointer.value.address.address,
        num_elements=array.count,
        element_bytes=element_bytes,
        activate_pop=_activated(pop, settings, frame),
        activate_push=_activated(push, settings, frame),
        empty_action=_action(empty, settings, frame),
        full_action=_action(full, settings, frame),
        priority=priority_of(settings, settings.node, frame),
        position=frame.position(node),
    )
    settings.finish(_FIFO_OPTIONS)
    return found


def _activated(value: Value | None, settings: Settings, frame: Frame) -> Target | None:
    if value is None:
        return None
    return activated(value, settings.node, frame, (t.LOCAL_TASK,), "the action of a FIFO")


def _action(value: Const | None, settings: Settings, frame: Frame) -> str:
    if value is None:
        return _ACTIONS[0]
    for name in _ACTIONS:
        chosen = field_of(value, name)
        if isinstance(chosen, Const) and chosen.value is True:
            if name == "suspend" and not frame.world.session.is_wse3:
                frame.fail(settings.node, "the action '.suspend' of a FIFO exists on wse3 only")
            return name
    frame.fail(settings.node, f"the action of a FIFO is one of {', '.join(_ACTIONS)}")


@builtin("set_fifo_read_length", 2)
@builtin("set_fifo_write_length", 2)
def _set_fifo_length(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    needs_code(node, frame, f"'@{node.name}'")
    fifo = known_argument(node, 0, frame, "a FIFO")
    if fifo.type is not t.FIFO:
        frame.fail(node.arguments[0], f"expected a FIFO, got '{fifo.type}'")
    length = operand_of(as_u16(argument(node, 1, frame, t.U16), node, frame), node, frame)
    name = node.name.removeprefix("set_fifo_").join(("fifo_set_", ""))
    assert frame.builder is not None
    frame.builder.emit(
        Intrinsic(None, name, (Constant(POINTER, fifo.value.fifo), length), frame.position(node))
    )
    return VOID
