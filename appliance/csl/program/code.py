"""One code class: what every PE with equal file and parameters holds."""

from dataclasses import dataclass
from enum import StrEnum

from appliance.csl.program.instructions import Block
from appliance.csl.program.operands import Descriptor, Dsr, Operand
from appliance.csl.program.operations import OperationSettings, Target, TargetKind
from appliance.csl.program.types import MachineType, Position, Scalar

MEMORY_BYTES = 48 * 1024
"""Memory of one processing element."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function or task as basic blocks; block 0 is the entry.

    Parameters are the first registers. Structs and arrays are passed by address (a result
    too: the address is then the first parameter). Local variables that need memory are
    variables of the code class, so a function that has any is not entered twice at a time;
    the compiler refuses recursion there.
    """

    name: str
    """Module path and name, for traces: `main`, `math.sqrt_f32`."""
    num_parameters: int
    result: MachineType | None
    registers: tuple[MachineType, ...]
    register_names: tuple[str, ...]
    """Names of source variables, empty for temporaries."""
    blocks: tuple[Block, ...]
    may_wait: bool
    """Whether it, or what it calls, contains a DSD operation or `Map`."""
    position: Position


@dataclass(frozen=True, slots=True)
class Field:
    """A number, or an array of numbers, in an element that is a struct, a union or packed."""

    name: str
    """Behind the variable's: `.a`, `.s.b`, `.r[1].c`."""
    offset: int
    """Bytes from the element's beginning."""
    num_bytes: int
    """Bytes there that hold it: of a packed field, those of the whole packed value."""
    shift: int
    """Its lowest bit in a packed value."""
    type: Scalar
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A global, or a local that lives in memory."""

    name: str
    """Module path and name; unique in the code class."""
    address: int
    num_bytes: int
    alignment: int
    initial: bytes
    """Its first bytes; the rest is zero."""
    descriptors: tuple[tuple[int, Descriptor], ...]
    """Initial DSD values at byte offsets; their places in `initial` are zero."""
    element: MachineType | None
    """Element type if it is a scalar or an array of scalars."""
    shape: tuple[int, ...]
    mutable: bool
    position: Position
    fields: tuple[Field, ...] = ()
    """What an element is made of, the first ones, if it is no number itself."""


@dataclass(frozen=True, slots=True)
class MemorySymbol:
    """A symbol that the host reads by name (`export var`, `linkname`, `$$csl_debug...`)."""

    name: str
    variable: int


class TaskKind(StrEnum):
    """What makes a task run."""

    LOCAL = "local"
    DATA = "data"
    CONTROL = "control"


@dataclass(frozen=True, slots=True)
class TaskBinding:
    """`@bind_local_task` and so on.

    A data task takes its arguments from the payload's low end: `argument_bits` are the widths
    of its registers in order.
    """

    kind: TaskKind
    id: int
    function: int
    argument_bits: tuple[int, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something that is blocked, or expressly unblocked, at start."""

    kind: TargetKind
    id: int


@dataclass(frozen=True, slots=True)
class QueueInitialisation:
    """`@initialize_queue`; `automatic` if the compiler made it from a DSD (old dialect)."""

    output: bool
    queue: int
    color: int | None
    priority: str
    control_table: int | None
    automatic: bool
    position: Position


@dataclass(frozen=True, slots=True)
class Fifo:
    """`@allocate_fifo`: a circular buffer in memory."""

    name: str
    address: int
    num_elements: int
    element_bytes: int
    activate_pop: Target | None
    """Activated when a pop ends a full condition that had been hit."""
    activate_push: Target | None
    """Activated when a push ends an empty condition that had been hit."""
    empty_action: str
    full_action: str
    """`test_or_suspend` (default), `terminate`, `suspend`, `fault`."""
    priority: str
    position: Position


@dataclass(frozen=True, slots=True)
class InitialDsrLoad:
    """`@load_to_dsr` in a top-level comptime block."""

    dsr: Dsr
    source: Operand
    settings: OperationSettings
    save_address: bool
    single_step: bool
    position: Position


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that task 29 runs: for a color in teardown, or a queue that was flushed."""

    kind: str
    """`teardown` (id is a color), `empty_input_queue`, `empty_output_queue`."""
    id: int
    function: int
    position: Position


@dataclass(frozen=True, slots=True)
class InitialService:
    """A service of `INTRINSICS` that every PE asks for before it starts, with its arguments."""

    name: str
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Export:
    """`@export_symbol`: an entry of out_rpc.json as this class has it."""

    name: str
    address: int | None
    """Address of the exported pointer or scalar variable."""
    function: int | None
    stream: int | None = None
    """Color, for the older `Stream` kind."""


@dataclass(frozen=True, slots=True)
class CodeClass:
    """Code, memory image and start state that PEs share."""

    file: str
    parameters: str
    """The parameters as text, for messages and traces."""
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    tasks: tuple[TaskBinding, ...]
    active: tuple[Target, ...]
    """Local tasks that are active at start."""
    blocked: tuple[Blocked, ...]
    unblocked: tuple[Blocked, ...]
    """What `@unblock` names at compile time: a channel without a data task lets control
    wavelets run only then."""
    queues: tuple[QueueInitialisation, ...]
    fifos: tuple[Fifo, ...]
    dsr_loads: tuple[InitialDsrLoad, ...]
    handlers: tuple[Handler, ...]
    exports: tuple[Export, ...]
    symbols: tuple[MemorySymbol, ...]
    initial_services: tuple[InitialService, ...]
    """What comptime blocks ask for, `@set_config` too, in order."""
    memory_end: int
    """First byte address that nothing occupies."""
