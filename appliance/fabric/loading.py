"""A whole program in the kernel's memory: classes, routes, the grid."""

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import InternalError
from appliance.csl.program import ColorConfiguration, Filter, Program
from appliance.fabric.bytecode import COLOR_CONFIG, RECORDS
from appliance.fabric.lowering.classes import LoweredClass, lower_class
from appliance.fabric.native.loader import Kernel
from appliance.fabric.verification import check_program
from appliance.wafer.hardware import Machine, find_machine

_POP_MODES = {"no_pop": 0, "always_pop": 1, "pop_on_advance": 2, "pop_on_advance_nop": 3}
_FILTER_KINDS = {"counter": 1, "sparse_counter": 2, "range": 3}
_FORMATS = {"f16": 0, "bf16": 1, "cb16": 2}


@dataclass(frozen=True, kw_only=True)
class LoadedProgram:
    """A program that the kernel holds.

    Attributes:
        handle: The kernel's machine; freed by whoever loaded it.
        classes: As lowered, for positions and names.
        owners: Memory that the kernel reads; must live as long as the handle.
    """

    handle: int
    classes: tuple[LoweredClass, ...]
    owners: tuple[object, ...]


def machine_of(program: Program) -> Machine:
    """Return the machine that a program was compiled for."""
    return find_machine({"wse2": "CS-2", "wse3": "CS-3"}[program.architecture])


def load_program(
    program: Program,
    kernel: Kernel,
    *,
    order: int,
    num_threads: int = 1,
    is_checked: bool = False,
) -> LoadedProgram:
    """Lower a program and give it to the kernel.

    Args:
        order: 1 lets tasks take turns downwards.
        num_threads: Bands of rows that the grid is cut into, each for a thread.
        is_checked: Whether accesses beyond an array are found.

    Raises:
        UserError: The program holds a number that points at nothing.
    """
    _check_layout(kernel)
    check_program(program)
    machine = machine_of(program)
    classes = tuple(
        lower_class(
            source,
            architecture=program.architecture,
            fp16_format=program.fp16_format,
            machine=machine,
            is_checked=is_checked,
        )
        for source in program.classes
    )
    images = np.concatenate([entry.image for entry in classes])
    code_of = np.frombuffer(program.grid.code, dtype="<u4").copy()
    routing_of = np.frombuffer(program.grid.routing, dtype="<u4").copy()
    routings = [_routing_table(entry.colors) for entry in program.routings] or [_routing_table(())]
    addresses = np.array([table.ctypes.data for table in routings], dtype=np.uint64)
    sizes = np.array([len(entry.colors) for entry in program.routings] or [0], dtype=np.uint32)
    options = np.array(
        [
            program.grid.width,
            program.grid.height,
            program.architecture == "wse3",
            _FORMATS[program.fp16_format],
            machine.ramp_cycles,
            machine.task_start_cycles,
            machine.local_task_start_cycles,
            max(1, program.channels),
            order,
            max(1, num_threads),
        ],
        dtype=np.uint32,
    )
    tables = (options, images, code_of, routing_of, addresses, sizes)
    handle = kernel.new(*[_pointer(table) for table in tables])
    return LoadedProgram(handle=handle, classes=classes, owners=(*tables, *routings))


def _pointer(table: NDArray[np.generic]) -> ctypes.c_void_p:
    return ctypes.c_void_p(table.ctypes.data)


def _check_layout(kernel: Kernel) -> None:
    for number, record in enumerate(RECORDS):
        if kernel.layout(number) != record.itemsize:
            raise InternalError(
                f"Record {number} of the fabric's kernel has {kernel.layout(number)} bytes, "
                f"{record.itemsize} are expected: the bitcode is older than the sources.",
                hint="Run `python -m appliance.fabric.native.build`.",
            )


def _routing_table(colors: tuple[ColorConfiguration, ...]) -> NDArray[np.void]:
    table = np.zeros(max(1, len(colors)), dtype=COLOR_CONFIG)
    for row, color in zip(table, colors, strict=False):
        _fill_color(row, color)
    return table


def _fill_color(row: np.void, color: ColorConfiguration) -> None:
    row["color"], row["is_used"] = color.color, 1
    row["rx"], row["tx"] = color.rx, color.tx
    for number, position in enumerate(color.positions, start=1):
        row["rx_at"][number], row["tx_at"][number] = position.rx, position.tx
        row["valid"] |= int(position.valid) << number
    row["position"], row["ring"] = color.current_position, color.ring_mode
    row["pop_mode"] = _POP_MODES[color.pop_mode]
    row["swap_x"], row["swap_y"] = color.swap_x, color.swap_y
    row["teardown"] = color.teardown
    row["has_switch"] = bool(color.positions) or color.pop_mode != "no_pop"
    if color.filter is not None:
        _fill_filter(row["filter"], color.filter)


def _fill_filter(row: np.void, source: Filter) -> None:
    row["kind"], row["is_active"] = _FILTER_KINDS[source.kind], 1
    row["count_data"], row["count_control"] = source.count_data, source.count_control
    row["filter_control"] = source.filter_control
    row["init_counter"], row["max_counter"] = source.init_counter, source.max_counter
    row["limit1"] = source.limit1
    row["limit2"] = source.limit2 or 0
    row["has_limit2"] = source.limit2 is not None
    row["min_index"], row["max_index"] = source.min_index, source.max_index
