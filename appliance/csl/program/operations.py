"""Machine operations: DSDs, tasks, colors, queues and the machine's services."""

from dataclasses import dataclass
from enum import StrEnum

from appliance.csl.program.operands import (
    DsdOperand,
    Dsr,
    Operand,
    Place,
    Register,
)
from appliance.csl.program.types import DescriptorType, Position, Scalar


class TargetKind(StrEnum):
    """What an id names."""

    LOCAL_TASK = "local_task"
    DATA_TASK = "data_task"
    CONTROL_TASK = "control_task"
    COLOR = "color"
    INPUT_QUEUE = "input_queue"
    MICROTHREAD = "microthread"


@dataclass(frozen=True, slots=True)
class Target:
    """The task that an operation activates, blocks or unblocks.

    On WSE-2 the id of a data task is its color, on WSE-3 its input queue.
    """

    kind: TargetKind
    id: Operand


@dataclass(frozen=True, slots=True)
class Activate:
    """`@activate`: marks a local task active."""

    task: Target
    position: Position


@dataclass(frozen=True, slots=True)
class SetBlocked:
    """`@block` and `@unblock`."""

    target: Target
    blocked: bool
    position: Position


@dataclass(frozen=True, slots=True)
class Assert:
    """`@assert`: stops the simulation with an error of this PE and line unless it holds."""

    condition: Operand
    text: str
    """The source text of the condition, for the message."""
    position: Position


@dataclass(frozen=True, slots=True)
class DsdMake:
    """`@get_dsd` whose properties are not all known when the program is compiled.

    Memory: `base`, `offset` (elements), `extents`, `strides` (elements, outermost first);
    `element_bytes` as in `MemoryDescriptor`. Fabric: `extents[0]`, and `color` if sent on
    one; everything else is in `template`, a constant descriptor whose fields of the same
    name do not count.
    """

    dest: Register
    type: DescriptorType
    template: Operand
    base: Operand | None
    offset: Operand | None
    extents: tuple[Operand, ...]
    strides: tuple[Operand, ...]
    color: Operand | None
    position: Position


@dataclass(frozen=True, slots=True)
class DsdUpdate:
    """`dest` = `source` with one field changed.

    `field`: `length` (`u16`), `base` (an address; the offset becomes 0 and the width of an
    element `element_bytes`), `stride` (`i8`), `advance` (`i16` elements of `element_bytes`
    added to where it starts).
    """

    dest: Register
    source: Operand
    type: DescriptorType
    field: str
    value: Operand
    element_bytes: int
    position: Position


class Completion(StrEnum):
    """What an asynchronous operation does when its last element is done."""

    ACTIVATE = "activate"
    UNBLOCK = "unblock"


@dataclass(frozen=True, slots=True)
class OnControl:
    """What a control wavelet does that an operation reads: end it, activate or unblock."""

    terminate: bool = False
    action: Completion | None = None
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class OperationSettings:
    """The trailing struct of an operation, or that of `@load_to_dsr`."""

    asynchronous: bool = False
    completion: Completion | None = None
    target: Target | None = None
    on_control: OnControl | None = None
    index: Operand | None = None
    """`u16`: added, in 16-bit words, to the address of memory operands with
    `wavelet_index_offset`; the high half of 16-bit wavelets that are sent."""
    priority: str = "default"
    """`default`, `high`, `medium`, `low`."""
    microthread: int | None = None
    """`ut_id`, WSE-3."""


@dataclass(frozen=True, slots=True)
class DsdOperation:
    """A DSD operation such as `@fmacs`: destination, then sources.

    `op` is the builtin's name without `@`; `dfilt` has one operand, the queue's DSD. `dest` (a
    `bool`) receives its result if that is used: False if a synchronous operation on a FIFO
    stopped early. If an operand is a DSR, `asynchronous`, completion and `on_control` come
    from what was loaded into it; the completions of several DSRs all happen.
    """

    dest: Register | None
    op: str
    operands: tuple[DsdOperand, ...]
    settings: OperationSettings
    position: Position


def uneven_lengths(taken: int, operand: int, length: int) -> str:
    """Say that operands of a DSD operation differ in length: what it takes, and who has another."""
    name = ("destination", "first source", "second source")[operand]
    return f"its operands differ in length: it takes {taken:,}, its {name} has {length:,}"


@dataclass(frozen=True, slots=True)
class LoadDsr:
    """`@load_to_dsr`.

    `extended` and `stride_register` are the registers that a circular buffer or a
    four-dimensional DSD needs besides.
    """

    dsr: Dsr
    source: Operand
    settings: OperationSettings
    save_address: bool
    single_step: bool
    extended: Dsr | None
    stride_register: Dsr | None
    position: Position


@dataclass(frozen=True, slots=True)
class MapInput:
    """One argument of a mapped function: the next element of a DSD or DSR, or always the same.

    A `Place` is read again for every element.
    """

    operand: DsdOperand
    type: Scalar
    steps: bool


@dataclass(frozen=True, slots=True)
class Map:
    """`@map`: calls `function` per element, until the first stepping operand ends.

    The result goes to the next element of `output`, or to a `Place`, or nowhere.
    """

    function: int
    inputs: tuple[MapInput, ...]
    output: DsdOperand | None
    output_type: Scalar | None
    asynchronous: bool
    settings: OperationSettings
    position: Position


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """A service of the machine; the libraries call these, programs do not.

    `name` is one of `INTRINSICS`, which gives the arguments and the result.
    """

    dest: Register | None
    name: str
    arguments: tuple[Operand | Place, ...]
    position: Position


INTRINSICS: dict[str, str] = {
    "coordinate_x": "() u16: column in the program's rectangle",
    "coordinate_y": "() u16: row in the program's rectangle",
    "timestamp_enable": "(): starts the 48-bit cycle counter of the PE",
    "timestamp_disable": "(): stops it",
    "timestamp_reset": "(): sets it to 0",
    "timestamp_read": "(address): stores its three 16-bit words, low first",
    "random16": "() u16: the LFSR of csl `@random16`",
    "random_select": "(u16): `@set_active_prng`",
    "random_seed": "(u32): sets the state of the active LFSR",
    "unblock_command_stream": "(): lets the next memcpy command or launch start on this PE",
    "print_character": "(u16): one byte of the PE's line in sim.log; a newline ends the line",
    "set_routes": "(color u16, rx u16, tx u16): bits as in Direction.bit; switches unchanged",
    "switch_clear_position": "(color u16): back to position 0",
    "switch_invalidate": "(color u16): positions 1 to 3 become invalid",
    "switch_set": "(color u16, position u16, rx u16, tx u16): bits, 0 keeps that side",
    "switch_ring_mode": "(color u16, on bool)",
    "switch_pop_mode": "(color u16, mode u16): 0 no_pop, 1 always, 2 on_advance, 3 on_advance_nop",
    "switch_set_position": "(color u16, position u16): 0 to 3",
    "get_routes": "(color u16) u16: rx of position 0 in the low byte, tx in the high one",
    "teardown_exit": "(color u16): traffic of the color goes on in this router",
    "teardown_pending": "(color u16) bool: whether the color has not left its TEARDOWN",
    "filter_set_active": "(color u16, on bool)",
    "filter_set_counter": "(color u16, value u16)",
    "filter_set_limit": "(color u16, which u16, value u16): 0 max_counter, 1 limit1, 2 limit2",
    "filter_set_range": "(color u16, min u16, max u16)",
    "queue_flush": "(kind u16, queue u16): 0 input, 1 output; see Handler",
    "queue_flush_exit": "(kind u16, queue u16)",
    "queue_flush_pending": "(kind u16, queue u16) bool",
    "queue_bind_input": "(queue u16, color u16, filter bool)",
    "queue_bind_output": "(queue u16, color u16)",
    "queue_is_empty": "(kind u16, queue u16) bool",
    "queue_is_full": "(kind u16, queue u16) bool",
    "task_priority": "(id u16, high bool): of a task",
    "main_thread_priority": "(u16): 0 below low, 1 between medium and low, 2 above medium, 3 high",
    "fifo_set_read_length": "(fifo u16, length u16)",
    "fifo_set_write_length": "(fifo u16, length u16)",
    "config_read": "(address u16) u16: a configuration register by its word address",
    "config_write": "(address u16, value u16)",
    "sqrt": "(f) f: rounded to nearest even; f is f16 or f32, by the result's register",
    "exp": "(f) f",
    "log": "(f) f",
    "sin": "(f) f",
    "cos": "(f) f",
    "tanh": "(f) f",
    "pow": "(f, f) f",
    "floor": "(f) f",
    "ceil": "(f) f",
    "scale": "(f, i16) f: times 2 to the power",
}
"""The services: arguments, result, meaning. `f` functions without a note are correct to one unit
in the last place of the result's type."""


Operation = (
    Activate | SetBlocked | Assert | DsdMake | DsdUpdate | DsdOperation | LoadDsr | Map | Intrinsic
)
