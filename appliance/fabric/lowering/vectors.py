"""DSD operations, DSRs, `@map`, and DSDs that are made or changed at run time."""

import numpy as np

from appliance.core.errors import UserError
from appliance.csl.program import (
    Completion,
    Constant,
    DescriptorConstant,
    DescriptorType,
    DsdMake,
    DsdOperation,
    DsdUpdate,
    Dsr,
    DsrKind,
    FifoReference,
    LoadDsr,
    Map,
    MemoryDescriptor,
    OperationSettings,
    Place,
    Register,
    TargetKind,
)
from appliance.fabric.bytecode import (
    NONE_8,
    NONE_16,
    SITE,
    VECTOR_OPS,
    Op,
    OperandKind,
    TargetNumber,
)
from appliance.fabric.descriptors import PRIORITIES, width_code
from appliance.fabric.lowering.body import Body
from appliance.fabric.lowering.scalars import load_op
from appliance.wafer.hardware import Machine
from appliance.wafer.instruction_costs import operations_per_cycle

_FILES = {DsrKind.DEST: 0, DsrKind.SRC0: 1, DsrKind.SRC1: 2}
_COMPLETIONS = {None: 0, Completion.ACTIVATE: 1, Completion.UNBLOCK: 2}
_FACTOR = 3
"""The place of the scalar factor of a fused operation among the operands of a site."""


def target_number(kind: TargetKind) -> TargetNumber:
    """Return how the machine numbers a kind of target."""
    return TargetNumber[kind.name]


def _operand(body: Body, value: object) -> tuple[int, int, int]:
    """Return kind, DSR file and slot of an operand."""
    match value:
        case Dsr():
            return OperandKind.DSR, _FILES[value.kind], value.number
        case FifoReference():
            return OperandKind.FIFO, 0, value.fifo
        case Place():
            return OperandKind.PLACE, 0, body.operand(value)
        case DescriptorConstant():
            return OperandKind.DESCRIPTOR, 0, body.operand(value)
        case Register() if isinstance(body.type_of(value), DescriptorType):
            return OperandKind.DESCRIPTOR, 0, body.operand(value)
    return OperandKind.SCALAR, 0, body.operand(value)


def fill_settings(body: Body, record: np.void, settings: OperationSettings) -> None:
    """Write the settings of an operation into a record of `SETTINGS`."""
    record["asynchronous"] = settings.asynchronous
    record["completion"] = _COMPLETIONS[settings.completion]
    record["priority"] = PRIORITIES[settings.priority]
    record["microthread"] = NONE_8 if settings.microthread is None else settings.microthread
    for name in ("target_slot", "control_slot", "index_slot"):
        record[name] = NONE_16
    if settings.target is not None:
        record["target_kind"] = target_number(settings.target.kind)
        record["target_slot"] = body.operand(settings.target.id)
    if settings.index is not None:
        record["index_slot"] = body.operand(settings.index)
    control = settings.on_control
    if control is None:
        return
    record["control_terminate"] = control.terminate
    record["control_action"] = _COMPLETIONS[control.action]
    if control.target is not None:
        record["control_kind"] = target_number(control.target.kind)
        record["control_slot"] = body.operand(control.target.id)


def _new_site(body: Body, settings: OperationSettings) -> np.void:
    site: np.void = np.zeros(1, dtype=SITE)[0]
    fill_settings(body, site["settings"], settings)
    return site


def _add_site(body: Body, site: np.void) -> int:
    site["position"] = body.code.here
    body.context.sites.append(site)
    return len(body.context.sites) - 1


def operation(body: Body, i: DsdOperation) -> None:
    """Lower a DSD operation such as `@fmacs`."""
    site = _new_site(body, i.settings)
    site["op"] = VECTOR_OPS.index(i.op)
    site["simd"] = operations_per_cycle(i.op, body.context.architecture)
    loads = 0
    first = 1 if i.op == "dfilt" else 0  # it has no destination
    for number, value in enumerate(i.operands, start=first):
        kind, file, slot = _operand(body, value)
        if number == _FACTOR and kind != OperandKind.SCALAR:
            raise UserError(
                f"@{i.op} in {body.name!r}: its factor is a DSD.",
                hint="Give a scalar as the last operand.",
            )
        site["operands"][number] = (kind, file, slot)
        if kind == OperandKind.DESCRIPTOR and (number, slot) not in body.in_dsrs:
            loads += 1
            if not i.settings.asynchronous:
                body.in_dsrs.add((number, slot))
    site["cost"] = _start_cycles(body.context.machine, i.settings, loads)
    dest = 0 if i.dest is None else body.slot(i.dest)
    body.code.emit(Op.VECTOR, dest, imm=_add_site(body, site))


def _start_cycles(machine: Machine, settings: OperationSettings, loads: int) -> int:
    if settings.asynchronous:
        return machine.thread_issue_cycles + loads * machine.thread_descriptor_cycles
    return machine.vector_issue_cycles + loads * machine.descriptor_load_cycles


def load_dsr(body: Body, i: LoadDsr) -> None:
    """Lower `@load_to_dsr`."""
    site = _new_site(body, i.settings)
    site["operands"][0] = (OperandKind.DESCRIPTOR, 0, body.operand(i.source))
    site["file"], site["number"] = _FILES[i.dsr.kind], i.dsr.number
    site["save_address"], site["single_step"] = i.save_address, i.single_step
    body.code.emit(Op.LOAD_DSR, imm=_add_site(body, site))


def make(body: Body, i: DsdMake) -> None:
    """Lower `@get_dsd` with properties that are known at run time only."""
    dest = body.slot(i.dest)
    body.code.emit(Op.MOV, dest, body.operand(_template(i)))
    width = _template_width(i)
    if i.base is not None:
        body.code.emit(Op.DSD_BASE, dest, dest, body.operand(i.base), imm=width_code(width))
    if i.offset is not None:
        body.code.emit(Op.DSD_ADVANCE, dest, dest, body.operand(i.offset), imm=width)
    if i.type is not DescriptorType.MEM4D and i.extents:
        body.code.emit(Op.DSD_LENGTH, dest, dest, body.operand(i.extents[0]))
    if i.type is DescriptorType.MEM1D and i.strides:
        body.code.emit(Op.DSD_STRIDE, dest, dest, body.operand(i.strides[0]))
    if i.color is not None:
        body.code.emit(Op.DSD_COLOR, dest, dest, body.operand(i.color))


def _template_width(i: DsdMake) -> int:
    if isinstance(i.template, DescriptorConstant):
        return getattr(i.template.descriptor, "element_bytes", 2)
    return 2


def _template(i: DsdMake) -> object:
    """Return the template, with the shape of a `mem4d_dsd`, which must be known."""
    if i.type is not DescriptorType.MEM4D or not i.extents:
        return i.template
    numbers = [*i.extents, *i.strides]
    if not all(isinstance(number, Constant) for number in numbers):
        raise UserError(
            "A mem4d_dsd has an extent or a stride that is known at run time only.",
            hint="Make them known when the program is compiled; base and offset may change.",
        )
    shape = tuple(int(extent.value) for extent in i.extents if isinstance(extent, Constant))
    strides = tuple(int(stride.value) for stride in i.strides if isinstance(stride, Constant))
    return DescriptorConstant(MemoryDescriptor(0, _template_width(i), 0, shape, strides))


def update(body: Body, i: DsdUpdate) -> None:
    """Lower `@set_dsd_length`, `@set_dsd_base_addr`, `@set_dsd_stride`, `@increment_dsd_offset`."""
    ops = {
        "length": (Op.DSD_LENGTH, 0),
        "stride": (Op.DSD_STRIDE, 0),
        "base": (Op.DSD_BASE, width_code(i.element_bytes) if i.field == "base" else 0),
        "advance": (Op.DSD_ADVANCE, i.element_bytes),
    }
    op, imm = ops[i.field]
    body.code.emit(op, body.slot(i.dest), body.operand(i.source), body.operand(i.value), imm=imm)


def map_(body: Body, i: Map) -> None:
    """Lower `@map` to a loop: next elements, the call, the result's element."""
    site = _new_site(body, i.settings)
    site["op"] = len(i.inputs)
    staging = body.frame.reserve(len(i.inputs) + 1)
    for number, entry in enumerate(i.inputs):
        if entry.steps:
            site["operands"][number] = _operand(body, entry.operand)
        site["steps"][number] = entry.steps
        site["widths"][number] = 4 if entry.type.num_bytes > 2 else 2
        site["is_signed"][number] = entry.type.is_signed
    if i.output is not None and i.output_type is not None:
        site["operands"][len(i.inputs)] = _operand(body, i.output)
        site["widths"][len(i.inputs)] = 4 if i.output_type.num_bytes > 2 else 2
    body.code.emit(Op.MAP_BEGIN, imm=_add_site(body, site))
    head = body.code.emit(Op.MAP_NEXT, staging)
    window = body.context.windows[i.function]
    for number, entry in enumerate(i.inputs):
        if isinstance(entry.operand, Place) and not entry.steps:
            address, offset = body.address(entry.operand.address)
            body.code.emit(load_op(entry.type), window.first + number, address, imm=offset)
            continue
        source = staging + number if entry.steps else body.operand(entry.operand)
        body.code.emit(Op.MOV, window.first + number, source)
    body.context.calls.append((body.code.emit(Op.CALL, window.return_slot), i.function))
    if i.output is not None:
        body.code.emit(Op.MAP_PUT, 0)
    body.code.aim(body.code.emit(Op.JUMP, cost=0), head)
    body.code.aim(head, body.code.here)
    _complete(body, i.settings)


def _complete(body: Body, settings: OperationSettings) -> None:
    if settings.completion is None or settings.target is None:
        return
    slot = body.operand(settings.target.id)
    if settings.completion is Completion.ACTIVATE:
        body.code.emit(Op.ACTIVATE, slot)
    else:
        body.code.emit(Op.SET_BLOCKED, slot, imm=target_number(settings.target.kind))
