"""What each field of a program may hold. A field without a rule fails a test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from appliance.csl.program import (
    NOWHERE,
    Address,
    Assert,
    Binary,
    Blocked,
    Branch,
    Call,
    CheckIndex,
    CircularDescriptor,
    CodeClass,
    ColorConfiguration,
    Constant,
    Copy,
    DsdOperation,
    DsdUpdate,
    Dsr,
    Export,
    FabricInDescriptor,
    FabricOutDescriptor,
    Field,
    Fifo,
    FifoReference,
    Filter,
    Function,
    FunctionAddress,
    Grid,
    Handler,
    HostStream,
    InitialService,
    Intrinsic,
    Jump,
    Load,
    Map,
    MemoryDescriptor,
    MemorySymbol,
    OperationSettings,
    Position,
    Program,
    QueueInitialisation,
    Register,
    RpcSymbol,
    Scalar,
    Store,
    Switch,
    SwitchPosition,
    TaskBinding,
    Unary,
    Variable,
)
from appliance.fabric.bytecode import NUM_COLORS, NUM_QUEUES, SERVICES, VECTOR_OPS
from appliance.fabric.descriptors import PRIORITIES

NUM_TASK_IDS = 64
NUM_DSRS = 48
NUM_MICROTHREADS = 8
MOST_INPUTS = 8
"""Inputs of `@map`, which the kernel's record of one has room for."""
_MOST_FIFOS = 255
_MEMORY = 1 << 16
"""What an address can name. cslc refuses a program that needs more than the machine has."""
_WORD, _LONG = 0xFFFF, (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Between:
    """A number from `low` to `high`; each of them, in a tuple; None where there may be none."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Below:
    """An index: from 0 on, below how many there are of what is named."""

    count: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some words or numbers."""

    values: frozenset[Any]  # of a JSON value


@dataclass(frozen=True, slots=True)
class AtMost:
    """A tuple or bytes of at most so many."""

    length: int


@dataclass(frozen=True, slots=True)
class Free:
    """Anything of its type: nothing follows it, or a relation looks at it."""


Rule = Between | Below | OneOf | AtMost | Free


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where a value stands.

    Attributes:
        counts: How many there are of what an index points at.
        source: The code class, in one.
    """

    program: Program
    counts: Mapping[str, int]
    source: CodeClass | None = None
    function: Function | None = None
    path: Sequence[str] = field(default=())


def _one(*values: object) -> OneOf:
    return OneOf(frozenset(values))


FREE = Free()
_COLOR, _QUEUE, _TASK = Between(0, NUM_COLORS - 1), Between(0, NUM_QUEUES - 1), Between(0, 63)
_PORTS, _ADDRESS, _OFFSET = Between(0, 31), Between(0, _WORD), Between(-_WORD, _WORD)
_EXTENTS, _COUNTER = Between(0, _WORD), Between(0, _LONG)
_ELEMENT, _PRIORITY = _one(1, 2, 4, 8), OneOf(frozenset(PRIORITIES))
_FIFO_ACTION = _one("test_or_suspend", "terminate", "suspend", "fault")
_INTEGER = ("add", "sub", "mul", "div", "rem", "and", "or", "xor", "shl", "shr")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

RULES: dict[type, dict[str, Rule]] = {
    Position: {"file": Below("files"), "line": Between(0, _LONG), "column": Between(0, _LONG)},
    Scalar: {"kind": _one("bool", "int", "uint", "float"), "bits": Between(1, 64)},
    # --- operands
    Register: {"index": Below("registers")},
    Constant: {"value": FREE},
    Address: {"address": _ADDRESS, "symbol": FREE},
    FunctionAddress: {"function": Below("functions")},
    MemoryDescriptor: {
        "base": _ADDRESS,
        "element_bytes": _ELEMENT,
        "offset": _OFFSET,
        "extents": _EXTENTS,
        "strides": _OFFSET,
        "symbol": FREE,
    },
    CircularDescriptor: {
        "base": _ADDRESS,
        "element_bytes": _ELEMENT,
        "start": _OFFSET,
        "extent": _EXTENTS,
        "wraparound": _EXTENTS,
        "symbol": FREE,
    },
    FabricInDescriptor: {
        "queue": _QUEUE,
        "color": _COLOR,
        "extent": _EXTENTS,
        "priority": _PRIORITY,
        "simd_mode": FREE,
    },
    FabricOutDescriptor: {
        "queue": _QUEUE,
        "color": _COLOR,
        "extent": _EXTENTS,
        "priority": _PRIORITY,
        "simd_mode": FREE,
    },
    Dsr: {"number": Between(0, NUM_DSRS - 1)},
    FifoReference: {"fifo": Below("fifos")},
    # --- instructions
    Unary: {"op": _one("neg", "not")},
    Binary: {"op": _one(*_INTEGER, *COMPARISONS)},
    Assert: {"text": FREE},
    Load: {"offset": _OFFSET},
    Store: {"offset": _OFFSET},
    Copy: {"num_bytes": Between(0, _MEMORY)},
    CheckIndex: {"count": Between(0, (1 << 31) - 1), "array": FREE},
    Call: {"function": Below("functions")},
    Jump: {"block": Below("blocks")},
    Branch: {"then": Below("blocks"), "otherwise": Below("blocks")},
    Switch: {"cases": FREE, "otherwise": Below("blocks")},
    DsdUpdate: {
        "field": _one("length", "base", "stride", "advance"),
        "element_bytes": _one(0, 1, 2, 4, 8),
    },
    OperationSettings: {
        "priority": _PRIORITY,
        "microthread": Between(0, NUM_MICROTHREADS - 1),
    },
    DsdOperation: {"op": OneOf(frozenset(VECTOR_OPS))},
    Map: {"function": Below("functions"), "inputs": AtMost(MOST_INPUTS)},
    Intrinsic: {"name": OneOf(frozenset(SERVICES))},
    # --- code classes
    Function: {
        "name": FREE,
        "num_parameters": Between(0, _WORD),
        "register_names": FREE,
        "blocks": FREE,
    },
    Variable: {
        "name": FREE,
        "address": Between(0, _MEMORY),
        "num_bytes": Between(0, _MEMORY),
        "alignment": Between(0, _MEMORY),
        "initial": AtMost(_MEMORY),
        "descriptors": FREE,
        "shape": Between(0, _MEMORY),
    },
    Field: {
        "name": FREE,
        "offset": Between(0, _MEMORY),
        "num_bytes": Between(1, _MEMORY),
        "shift": Between(0, 63),
        "shape": Between(0, _MEMORY),
    },
    MemorySymbol: {"name": FREE, "variable": Below("variables")},
    TaskBinding: {"id": _TASK, "function": Below("functions"), "argument_bits": Between(0, 64)},
    Blocked: {"id": _TASK},
    QueueInitialisation: {
        "queue": _QUEUE,
        "color": _COLOR,
        "priority": _PRIORITY,
        "control_table": Between(0, _WORD),
    },
    Fifo: {
        "name": FREE,
        "address": Between(0, _MEMORY),
        "num_elements": Between(1, _MEMORY),
        "element_bytes": _ELEMENT,
        "empty_action": _FIFO_ACTION,
        "full_action": _FIFO_ACTION,
        "priority": _PRIORITY,
    },
    Handler: {
        "kind": _one("teardown", "empty_input_queue", "empty_output_queue"),
        "id": _COLOR,
        "function": Below("functions"),
    },
    Export: {
        "name": FREE,
        "address": Between(0, _MEMORY),
        "function": Below("functions"),
        "stream": _COLOR,
    },
    InitialService: {"name": OneOf(frozenset(SERVICES)), "arguments": Between(0, _LONG)},
    CodeClass: {
        "file": FREE,
        "parameters": FREE,
        "fifos": AtMost(_MOST_FIFOS),
        "memory_end": Between(0, _MEMORY),
    },
    # --- placement
    SwitchPosition: {"rx": Between(0, NOWHERE), "tx": Between(0, NOWHERE)},
    Filter: {
        "kind": _one("counter", "sparse_counter", "range"),
        **dict.fromkeys(("init_counter", "max_counter", "limit1", "limit2"), _COUNTER),
        **dict.fromkeys(("min_index", "max_index"), _COUNTER),
    },
    ColorConfiguration: {
        "color": _COLOR,
        "rx": _PORTS,
        "tx": _PORTS,
        "positions": AtMost(3),
        "current_position": Between(0, 3),
        "pop_mode": _one("no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop"),
    },
    Grid: {
        "width": Between(1, _WORD),
        "height": Between(1, _WORD),
        "code": FREE,
        "routing": FREE,
    },
    RpcSymbol: {
        "id": Between(0, _LONG),
        "kind": _one("Var", "Func", "Stream"),
        "name": FREE,
        "type": FREE,
        "inputs": FREE,
        "color": _COLOR,
    },
    HostStream: {"kind": _one("h2d", "d2h"), "number": Between(0, _WORD), "color": _COLOR},
    Program: {
        "architecture": _one("wse2", "wse3"),
        "dialect": FREE,
        "fabric": Between(0, _WORD),
        "offsets": Between(0, _WORD),
        "channels": Between(0, _WORD),
        "width_west_buf": Between(0, _WORD),
        "width_east_buf": Between(0, _WORD),
        "fp16_format": _one("f16", "bf16", "cb16"),
        "parameters": FREE,
        "colors": FREE,
        "files": FREE,
    },
}
"""By record and field. Only numbers, texts and bytes need one: an enumeration or a truth value is
right by its type, and records are looked at for themselves."""
