"""Code classes: all functions, tables of tasks, memory image, start state."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from appliance.csl.program import (
    CodeClass,
    Fifo,
    InitialDsrLoad,
    InitialService,
    LoadDsr,
    Target,
    TargetKind,
    TaskKind,
)
from appliance.fabric.bytecode import (
    CLASS_IMAGE,
    FIFO,
    NONE_8,
    NONE_32,
    NUM_COLORS,
    NUM_QUEUES,
    SERVICES,
    SHAPE,
    SITE,
    Op,
)
from appliance.fabric.descriptors import PRIORITIES, encode_descriptor
from appliance.fabric.lowering import vectors
from appliance.fabric.lowering.body import Body, ClassContext
from appliance.fabric.lowering.call_graph import cycles_of
from appliance.fabric.lowering.frames import Window
from appliance.fabric.lowering.functions import lower_function
from appliance.fabric.optimising.functions import optimised
from appliance.wafer.hardware import Machine

NUM_TASK_IDS = 64
_ACTIONS = {"test_or_suspend": 0, "terminate": 1, "suspend": 2, "fault": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredClass:
    """A code class ready for the kernel.

    Attributes:
        image: A record of `CLASS_IMAGE` whose addresses point into `tables`.
        tables: By name, owners of the memory that the image points at.
        positions: Source position (file, line, column) of each instruction, or None.
        starts: First instruction of each function, ascending with the functions.
        arrays: The array of each instruction that checks an index.
    """

    image: NDArray[np.void]
    tables: Mapping[str, NDArray[np.generic]]
    positions: tuple[tuple[int, int, int] | None, ...]
    starts: tuple[int, ...]
    arrays: Mapping[int, str]

    @property
    def code(self) -> NDArray[np.void]:
        """Its instructions, records of `INSTRUCTION`, as the kernel reads them."""
        return cast("NDArray[np.void]", self.tables["code"])


def lower_class(
    source: CodeClass,
    *,
    architecture: str,
    fp16_format: str,
    machine: Machine,
    is_checked: bool = False,
) -> LoweredClass:
    """Lower one code class; a checked one finds accesses beyond an array."""
    source = replace(source, functions=optimised(source.functions, is_checked=is_checked))
    groups = cycles_of(source)
    context = ClassContext(
        source=source,
        architecture=architecture,
        fp16_format=fp16_format,
        is_checked=is_checked,
        machine=machine,
        same_cycle=lambda caller, callee: (
            groups[caller] is not None and groups[caller] == groups[callee]
        ),
    )
    context.code.emit(Op.STOP)
    _lay_out_windows(context, groups)
    starts = []
    for number, function in enumerate(source.functions):
        starts.append(context.code.here)
        window = context.windows[number]
        lower_function(Body(context=context, function=function, number=number, window=window))
    for instruction, callee in context.calls:
        context.code.aim(instruction, starts[callee])
    start = _lower_start(context)
    return _assemble(context, tuple(starts), start)


def _lay_out_windows(context: ClassContext, groups: list[int | None]) -> None:
    for number, function in enumerate(context.source.functions):
        first = context.frame.reserve(len(function.registers) + 1)
        context.windows.append(
            Window(
                first=first,
                num_registers=len(function.registers),
                return_slot=first + len(function.registers),
                is_recursive=groups[number] is not None,
            )
        )


def _lower_start(context: ClassContext) -> int:
    """Emit what top-level comptime blocks write and load: code that every PE runs first."""
    loads, services = context.source.dsr_loads, context.source.initial_services
    if not loads and not services:
        return NONE_32
    start = context.code.here
    for service in services:
        _ask(context, service)
    window = Window(first=0, num_registers=0, return_slot=0, is_recursive=False)
    body = Body(context=context, function=None, number=0, window=window)
    for load in loads:
        vectors.load_dsr(body, _as_instruction(load))
    context.code.emit(Op.STOP)
    return start


def _ask(context: ClassContext, service: InitialService) -> None:
    """Emit a service that takes no time."""
    staging = context.frame.reserve(len(service.arguments))
    unused = context.frame.reserve(1)
    for number, word in enumerate(service.arguments):
        context.code.emit(Op.MOV, staging + number, context.frame.constant(word))
    context.code.emit(Op.INTRINSIC, unused, staging, imm=SERVICES.index(service.name))


def _as_instruction(load: InitialDsrLoad) -> LoadDsr:
    return LoadDsr(
        dsr=load.dsr,
        source=load.source,
        settings=load.settings,
        save_address=load.save_address,
        single_step=load.single_step,
        extended=None,
        stride_register=None,
        position=load.position,
    )


def _assemble(context: ClassContext, starts: tuple[int, ...], start: int) -> LoweredClass:
    source = context.source
    context.code.emit(Op.STOP)  # whatever runs on past the last function ends here
    tables: dict[str, NDArray[np.generic]] = {
        "code": context.code.array(),
        "functions": _function_table(context, starts),
        "fifos": _fifo_table(source),
        "memory": _memory_image(context),
        **_task_tables(source, is_wse3=context.architecture == "wse3"),
        "handlers": _handler_table(source),
        "frame": np.array(context.frame.image, dtype=np.uint64),
        "sites": np.array(context.sites, dtype=SITE) if context.sites else np.zeros(1, SITE),
        "shapes": _shape_table(context),
        "limits": _limit_table(source),
    }
    image = np.zeros(1, dtype=CLASS_IMAGE)
    for name, table in tables.items():
        image[name] = table.ctypes.data
    for name in ("code", "memory", "functions", "fifos", "shapes"):
        image[f"num_{name}"] = len(tables[name])
    image["num_fifos"] = len(source.fifos)
    image["num_slots"] = len(context.frame.image)
    image["start"] = start
    image["num_limits"] = len(source.variables) if context.is_checked else 0
    _set_start_state(image, context)
    positions = tuple(context.code.positions)
    return LoweredClass(
        image=image, tables=tables, positions=positions, starts=starts, arrays=context.arrays
    )


def _function_table(context: ClassContext, starts: tuple[int, ...]) -> NDArray[np.uint32]:
    rows = [
        (start, window.first, window.return_slot, function.num_parameters)
        for start, window, function in zip(
            starts, context.windows, context.source.functions, strict=True
        )
    ]
    return np.array(rows or [(0, 0, 0, 0)], dtype=np.uint32)


def _shape_table(context: ClassContext) -> NDArray[np.generic]:
    rows = np.array(context.shapes.rows or [(0,) * 16], dtype=np.int64)
    return (rows & 0xFFFF).astype(np.uint16).view(SHAPE).reshape(-1)


def _limit_table(source: CodeClass) -> NDArray[np.uint32]:
    """Return where variables lie, by address: their starts in the high halves, bytes in the low."""
    rows = sorted(each.address << 16 | min(each.num_bytes, 0xFFFF) for each in source.variables)
    return np.array(rows or [0], dtype=np.uint32)


def _target_id(target: Target | None) -> int:
    return NONE_8 if target is None else int(getattr(target.id, "value", NONE_8))


def _fifo_table(source: CodeClass) -> NDArray[np.generic]:
    rows = [_fifo_row(fifo) for fifo in source.fifos]
    return np.array(rows or [(0,) * len(FIFO.names or ())], dtype=FIFO)


def _fifo_row(fifo: Fifo) -> tuple[int, ...]:
    ends = (_target_id(fifo.activate_pop), _target_id(fifo.activate_push))
    actions = (_ACTIONS[fifo.empty_action], _ACTIONS[fifo.full_action])
    return (
        fifo.address,
        fifo.num_elements,
        0,
        0,
        0,
        0,
        fifo.element_bytes,
        *ends,
        *actions,
        0,
        0,
        0,
    )


def _memory_image(context: ClassContext) -> NDArray[np.uint8]:
    source = context.source
    image = np.zeros(source.memory_end + (source.memory_end & 1), dtype=np.uint8)
    for variable in source.variables:
        initial = np.frombuffer(variable.initial, dtype=np.uint8)
        image[variable.address : variable.address + len(initial)] = initial
        for offset, descriptor in variable.descriptors:
            word = encode_descriptor(descriptor, context.shapes).to_bytes(8, "little")
            at = variable.address + offset
            image[at : at + 8] = np.frombuffer(word, dtype=np.uint8)
    return image


def _task_tables(source: CodeClass, *, is_wse3: bool) -> dict[str, NDArray[np.generic]]:
    names = ("local_tasks", "data_tasks", "control_tasks")
    tables: dict[str, NDArray[np.generic]] = {
        name: np.full(NUM_TASK_IDS, NONE_32, dtype=np.uint32) for name in names
    }
    for name in ("data_widths", "control_widths"):
        tables[name] = np.zeros(NUM_TASK_IDS, dtype=np.uint32)
    for task in source.tasks:
        tables[f"{task.kind.value}_tasks"][task.id] = task.function
        if task.kind is not TaskKind.LOCAL:
            tables[f"{task.kind.value}_widths"][task.id] = _argument_widths(source, task.function)
    if not is_wse3:
        _name_by_control(tables)
    return tables


def _name_by_control(tables: dict[str, NDArray[np.generic]]) -> None:
    """WSE-2: a control wavelet may name any task; data tasks take its low bits as of other data."""
    control, widths = tables["control_tasks"], tables["control_widths"]
    for name in ("data", "local"):
        found = (control == NONE_32) & (tables[f"{name}_tasks"] != NONE_32)
        control[found] = tables[f"{name}_tasks"][found]
        if name == "data":
            widths[found] = tables["data_widths"][found]


def _argument_widths(source: CodeClass, number: int) -> int:
    """Return the widths of a task's parameters, eight bits each, bit 7 for signed ones."""
    function = source.functions[number]
    total = 0
    for place, kind in enumerate(function.registers[: function.num_parameters]):
        bits = getattr(kind, "bits", 16)
        signed = getattr(kind, "is_signed", False)
        total |= (min(bits, 32) | (0x80 if signed else 0)) << (8 * place)
    return total & NONE_32


def _handler_table(source: CodeClass) -> NDArray[np.uint32]:
    table = np.full(NUM_COLORS + 2 * NUM_QUEUES, NONE_32, dtype=np.uint32)
    offsets = {"teardown": 0, "empty_input_queue": NUM_COLORS}
    offsets["empty_output_queue"] = NUM_COLORS + NUM_QUEUES
    for handler in source.handlers:
        table[offsets[handler.kind] + handler.id] = handler.function
    return table


def _set_start_state(image: NDArray[np.void], context: ClassContext) -> None:
    source, is_wse3 = context.source, context.architecture == "wse3"
    image["active"] = sum(1 << _target_id(target) for target in source.active)
    blocked = {name: 0 for name in ("local", "data", "color", "queue")}
    bound = {task.id for task in source.tasks if task.kind is TaskKind.DATA}
    for entry in source.blocked:
        for name in _blocked_words(entry.kind, is_wse3=is_wse3):
            blocked[name] |= 1 << entry.id
    for name, bits in blocked.items():
        image[f"blocked_{name}"] = bits
    _set_queues(image, context, bound, is_wse3=is_wse3)


def _blocked_words(kind: TargetKind, *, is_wse3: bool) -> tuple[str, ...]:
    if kind is TargetKind.LOCAL_TASK:
        return ("local",)
    if kind is TargetKind.DATA_TASK:
        return ("data", "queue" if is_wse3 else "color")
    if kind is TargetKind.COLOR:
        return ("data", "color")
    return ("data", "queue")


def _set_queues(
    image: NDArray[np.void], context: ClassContext, bound: set[int], *, is_wse3: bool
) -> None:
    colors, outputs = [NONE_8] * NUM_COLORS, [NONE_8] * NUM_QUEUES
    inputs, priorities = [NONE_8] * NUM_QUEUES, [0] * NUM_QUEUES
    for queue in context.source.queues:
        if queue.output:
            outputs[queue.queue] = NONE_8 if queue.color is None else queue.color
        elif queue.color is not None:
            if not queue.automatic or colors[queue.color] == NONE_8:
                colors[queue.color] = queue.queue
            if not queue.automatic or inputs[queue.queue] == NONE_8:
                inputs[queue.queue] = queue.color
                priorities[queue.queue] = PRIORITIES[queue.priority]
    if not is_wse3:
        _lend_queues(colors, inputs, bound)
    image["input_color"], image["output_color"] = [inputs], [outputs]
    image["input_priority"], image["queue_of_color"] = [priorities], [colors]


def _lend_queues(colors: list[int], inputs: list[int], bound: set[int]) -> None:
    """Give data tasks of WSE-2 their queues, which need no `@initialize_queue`.

    The highest free ones serve; where they are fewer than colors, the colors take turns in sharing
    them. If none is free, tasks share the queues of the program.
    """
    waiting = sorted(color for color in bound if colors[color] == NONE_8)
    free = [number for number in reversed(range(NUM_QUEUES)) if inputs[number] == NONE_8]
    for place, color in enumerate(waiting):
        serving = free or list(reversed(range(NUM_QUEUES)))
        number = serving[place % len(serving)]
        colors[color] = number
        if inputs[number] == NONE_8:
            inputs[number] = color
