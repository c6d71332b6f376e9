"""What the fields of a record must be to each other, and to where the record stands."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from appliance.csl.program import (
    INTRINSICS,
    NO_CODE,
    Address,
    Binary,
    Call,
    CallIndirect,
    CodeClass,
    Constant,
    Convert,
    Copy,
    DescriptorConstant,
    DescriptorType,
    DsdMake,
    DsdOperation,
    Dsr,
    DsrKind,
    Fifo,
    FifoReference,
    Function,
    Grid,
    Handler,
    InitialDsrLoad,
    InitialService,
    Intrinsic,
    LoadDsr,
    Map,
    MapInput,
    MemoryDescriptor,
    Place,
    Register,
    RoutingClass,
    Scalar,
    Switch,
    TargetKind,
    TaskBinding,
    TaskKind,
    Variable,
)
from appliance.fabric.bytecode import NUM_COLORS, NUM_QUEUES
from appliance.fabric.verification.rules import COMPARISONS, NUM_TASK_IDS, Scope

_FLOATS = (16, 32)
_FILES = frozenset({DsrKind.DEST, DsrKind.SRC0, DsrKind.SRC1})
_ONE_SOURCE = frozenset(
    (
        *("mov16", "mov32", "fmovh", "fmovs", "fnegh", "fnegs", "fabsh", "fabss", "clz", "ctz"),
        *("popcnt", "fh2s", "fs2h", "fh2xp16", "fs2xp16", "xp162fh", "xp162fs"),
        *("fnormh", "fnorms"),
    )
)
_THREE_SOURCES = frozenset({"fmach", "fmacs", "fmachs"})
_MOST_ARGUMENTS = 255
_DESCRIPTOR_BYTES = 8
Relation = Callable[[Scope, Any], str]
"""Returns what is wrong with a record, as the end of a sentence; empty if nothing is."""


def _scalar(_: Scope, kind: Scalar) -> str:
    if kind.is_float and kind.bits not in _FLOATS:
        return f"a float of {kind.bits} bits"
    return "a bool of more than one bit" if kind.kind == "bool" and kind.bits != 1 else ""


def _constant(_: Scope, constant: Constant) -> str:
    kind, value = constant.type, constant.value
    if kind.is_float:
        is_number = isinstance(value, int | float) and (
            isinstance(value, float) or abs(value) < 1 << 1000
        )
        return "" if is_number else f"a float of the value {str(value)[:20]}"
    if isinstance(value, float) and (math.isinf(value) or math.isnan(value) or value % 1):
        return f"an integer of the value {value}"
    return "" if abs(value) < 1 << 64 else "a constant of more than 64 bits"


def _memory_descriptor(_: Scope, descriptor: MemoryDescriptor) -> str:
    rank = len(descriptor.extents)
    fits = 1 <= rank <= 4 and rank == len(descriptor.strides)
    return "" if fits else f"a DSD of {rank} extents and {len(descriptor.strides)} strides"


def _binary(_: Scope, instruction: Binary) -> str:
    floats = ("add", "sub", "mul", "div", "rem", *COMPARISONS)
    if instruction.type.is_float and instruction.op not in floats:
        return f"{instruction.op} of floats"
    return ""


def _convert(_: Scope, instruction: Convert) -> str:
    before, after = instruction.from_type, instruction.to_type
    if instruction.bitwise and before.bits != after.bits:
        return f"{before.bits} bits taken for {after.bits}"
    return ""


def _copy(_: Scope, instruction: Copy) -> str:
    return f"a copy of {instruction.num_bytes} bytes" if instruction.num_bytes % 2 else ""


def _switch(scope: Scope, instruction: Switch) -> str:
    for value, block in instruction.cases:
        if not 0 <= block < scope.counts["blocks"] or abs(value) >= 1 << 64:
            return f"the case {value} at block {block}"
    return ""


def _arguments(scope: Scope, function: int, given: int) -> str:
    assert scope.source is not None
    takes = scope.source.functions[function].num_parameters
    return "" if takes == given else f"{given} arguments for a function that takes {takes}"


def _call(scope: Scope, instruction: Call) -> str:
    return _arguments(scope, instruction.function, len(instruction.arguments))


def _call_indirect(_: Scope, instruction: CallIndirect) -> str:
    given = len(instruction.arguments)
    is_right = given == len(instruction.argument_types) and given <= _MOST_ARGUMENTS
    return "" if is_right else f"{given} arguments for {len(instruction.argument_types)} types"


def _make(scope: Scope, instruction: DsdMake) -> str:
    ranks = len(instruction.extents), len(instruction.strides)
    if max(ranks) > 4 or (instruction.type is DescriptorType.MEM4D and ranks[0] != ranks[1]):
        return f"a DSD of {ranks[0]} extents and {ranks[1]} strides"
    numbers = (*instruction.extents, *instruction.strides)
    if any(isinstance(each, Constant) and not -0xFFFF <= each.value <= 0xFFFF for each in numbers):
        return "an extent or a stride beyond 16 bits"
    return _dsd_type(scope, instruction.template)


def _is_dsd(scope: Scope, operand: object) -> bool:
    if isinstance(operand, Register):
        assert scope.function is not None
        return isinstance(scope.function.registers[operand.index], DescriptorType)
    return isinstance(operand, DescriptorConstant)


def _dsd_type(scope: Scope, operand: object) -> str:
    return "" if _is_dsd(scope, operand) else "a DSD that is none"


def _num_operands(op: str) -> int:
    if op == "dfilt":
        return 1
    return 2 if op in _ONE_SOURCE else 4 if op in _THREE_SOURCES else 3


def _operation(scope: Scope, instruction: DsdOperation) -> str:
    given, takes = len(instruction.operands), _num_operands(instruction.op)
    if given != takes:
        return f"{given} operands of @{instruction.op}, which takes {takes}"
    first = instruction.operands[0]
    if not isinstance(first, Dsr | FifoReference | Place) and not _is_dsd(scope, first):
        return f"@{instruction.op} on what is no DSD"
    return _dsr_files(instruction.operands)


def _dsr_files(operands: tuple[object, ...]) -> str:
    wrong = [each for each in operands if isinstance(each, Dsr) and each.kind not in _FILES]
    return f"an operand in a {wrong[0].kind}" if wrong else ""


def _load_dsr(scope: Scope, instruction: LoadDsr | InitialDsrLoad) -> str:
    return _dsr_files((instruction.dsr,)) or _dsd_type(scope, instruction.source)


def _map(scope: Scope, instruction: Map) -> str:
    if instruction.output is not None and instruction.output_type is None:
        return "a @map with an output of no type"
    if isinstance(instruction.output, Constant | Address):
        return "a @map into a number"
    operands = (*(each.operand for each in instruction.inputs), instruction.output)
    wrong = _dsr_files(operands)
    return wrong or _arguments(scope, instruction.function, len(instruction.inputs))


def _map_input(_: Scope, entry: MapInput) -> str:
    is_stepped = isinstance(entry.operand, Dsr | FifoReference)
    return "an input of @map that never steps" if is_stepped and not entry.steps else ""


def _intrinsic(_: Scope, instruction: Intrinsic | InitialService) -> str:
    inside = INTRINSICS[instruction.name].split("(", 1)[1].split(")", 1)[0]
    takes, given = len(inside.split(",")) if inside else 0, len(instruction.arguments)
    return (
        "" if takes == given else f"{given} arguments for {instruction.name}, which takes {takes}"
    )


# --- code classes


def _function(_: Scope, function: Function) -> str:
    if not function.blocks:
        return "a function without a block"
    num_registers = len(function.registers)
    return (
        f"{function.num_parameters} parameters in {num_registers} registers"
        if function.num_parameters > num_registers
        else ""
    )


def _variable(scope: Scope, variable: Variable) -> str:
    assert scope.source is not None
    end = variable.address + variable.num_bytes
    if end > scope.source.memory_end or len(variable.initial) > variable.num_bytes:
        return (
            f"{variable.name!r} with {len(variable.initial):,} of {variable.num_bytes:,} bytes "
            f"from {variable.address:#x} on, in memory that ends at {scope.source.memory_end:#x}"
        )
    for offset, _descriptor in variable.descriptors:
        if not 0 <= offset <= variable.num_bytes - _DESCRIPTOR_BYTES:
            return f"a DSD at byte {offset} of {variable.name!r}"
    return _fields(variable)


def _fields(variable: Variable) -> str:
    """Each lies within an element, and has the bytes of its numbers."""
    size = variable.num_bytes // max(1, math.prod(variable.shape))
    for field in variable.fields:
        needed = math.prod(field.shape) * field.type.num_bytes if field.shape else 1
        if needed > field.num_bytes or field.offset + field.num_bytes > size:
            return f"the field {field.name!r} of {variable.name!r} beyond an element"
    return ""


def _task(scope: Scope, task: TaskBinding) -> str:
    if task.kind is not TaskKind.DATA:
        return ""
    limit = NUM_QUEUES if scope.program.architecture == "wse3" else NUM_COLORS
    return "" if task.id < limit else f"a data task of the id {task.id}"


def _fifo(scope: Scope, fifo: Fifo) -> str:
    assert scope.source is not None
    end = fifo.address + fifo.num_elements * fifo.element_bytes
    if end > scope.source.memory_end:
        return f"the FIFO {fifo.name!r} to {end:#x}, beyond {scope.source.memory_end:#x}"
    targets = (fifo.activate_pop, fifo.activate_push)
    return _targets(target.id for target in targets if target is not None)


def _targets(ids: Iterator[object]) -> str:
    for each in ids:
        if not isinstance(each, Constant) or not 0 <= each.value < NUM_TASK_IDS:
            return "a task that has no number, or none that is a task's"
    return ""


def _handler(_: Scope, handler: Handler) -> str:
    is_there = handler.kind == "teardown" or handler.id < NUM_QUEUES
    return "" if is_there else f"a handler of queue {handler.id}"


def _code_class(_: Scope, source: CodeClass) -> str:
    if any(target.kind is not TargetKind.LOCAL_TASK for target in source.active):
        return "what is active at start and is no local task"
    return _targets(target.id for target in source.active)


# --- placement


def _routing(_: Scope, routing: RoutingClass) -> str:
    colors = [color.color for color in routing.colors]
    return "" if colors == sorted(set(colors)) else "colors that do not ascend"


def _grid(scope: Scope, grid: Grid) -> str:
    size = 4 * grid.width * grid.height
    if len(grid.code) != size or len(grid.routing) != size:
        return (
            f"{len(grid.code)} and {len(grid.routing)} bytes for {grid.width} x {grid.height} PEs"
        )
    code, routing = (np.frombuffer(each, dtype="<u4") for each in (grid.code, grid.routing))
    if np.any((code >= len(scope.program.classes)) & (code != NO_CODE)):
        return f"a PE with code class {int(code[code != NO_CODE].max())}"
    if np.any(routing >= max(1, len(scope.program.routings))):
        return f"a PE with routing class {int(routing.max())}"
    return ""


RELATIONS: dict[type, Relation] = {
    Scalar: _scalar,
    Constant: _constant,
    MemoryDescriptor: _memory_descriptor,
    Binary: _binary,
    Convert: _convert,
    Copy: _copy,
    Switch: _switch,
    Call: _call,
    CallIndirect: _call_indirect,
    DsdMake: _make,
    DsdOperation: _operation,
    LoadDsr: _load_dsr,
    InitialDsrLoad: _load_dsr,
    Map: _map,
    MapInput: _map_input,
    Function: _function,
    Variable: _variable,
    TaskBinding: _task,
    Fifo: _fifo,
    Handler: _handler,
    Intrinsic: _intrinsic,
    InitialService: _intrinsic,
    CodeClass: _code_class,
    RoutingClass: _routing,
    Grid: _grid,
}
