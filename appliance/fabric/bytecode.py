"""The byte code that a processing element executes: operation numbers and record layouts.

A task is an array of 16-byte instructions over the 64-bit slots of the PE's frame. Constants are
slots too. Whatever can wait (DSD operations on the fabric, `@map` over wavelets) is one
instruction whose progress lies in the PE, so a task stops and goes on anywhere: its whole state is
a program counter and the frame.

This module is the one place for these numbers; `native.build` writes them into a C header.
"""

from enum import IntEnum

import numpy as np

_INTEGER_TYPES = ("I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64")
_TYPED = ("ADD", "SUB", "MUL", "SHL")
_FLOAT = ("FADD", "FSUB", "FMUL", "FDIV", "FREM", "FNEG", "FEQ", "FNE", "FLT", "FLE")

_OP_NAMES = (
    "STOP",
    "MOV",
    *(f"{op}_{kind}" for op in _TYPED for kind in _INTEGER_TYPES),
    *("AND", "OR", "XOR", "NOT", "SHR_S", "SHR_U", "DIV_S", "DIV_U", "REM_S", "REM_U"),
    *("EXTEND_S", "EXTEND_U", "EQ", "NE", "LT_S", "LE_S", "LT_U", "LE_U"),
    *(f"{op}_{kind}" for op in _FLOAT for kind in ("F32", "F16")),
    *("S_TO_F32", "U_TO_F32", "S_TO_F16", "U_TO_F16"),
    *("F32_TO_S", "F32_TO_U", "F16_TO_S", "F16_TO_U", "F32_TO_F16", "F16_TO_F32"),
    *("F32_TO_BOOL", "F16_TO_BOOL"),
    *("LOAD_I16", "LOAD_U16", "LOAD_I32", "LOAD_U32", "LOAD_64"),
    *("STORE_16", "STORE_32", "STORE_64", "COPY"),
    *("JUMP", "IF", "IF_NOT", "IF_EQ", "IF_NE", "IF_LT_S", "IF_LE_S", "IF_LT_U", "IF_LE_U"),
    *("CALL", "CALL_POINTER", "RETURN", "SAVE", "RESTORE"),
    *("ACTIVATE", "SET_BLOCKED", "ASSERT"),
    *("DSD_LENGTH", "DSD_BASE", "DSD_STRIDE", "DSD_ADVANCE", "DSD_COLOR", "DSD_SHAPE"),
    *("VECTOR", "LOAD_DSR", "MAP_BEGIN", "MAP_NEXT", "MAP_PUT", "INTRINSIC"),
    *("INDEX_LOAD_U32", "INDEX_LOAD_U16", "INDEX_LOAD_I16", "INDEX_LOAD_I32"),
    *("INDEX_STORE_32", "INDEX_STORE_16"),
)

Op = IntEnum("Op", {name: number for number, name in enumerate(_OP_NAMES)})  # type: ignore[misc]
"""Instructions. The suffix of a typed one is the type of its result."""

VECTOR_OPS = (
    *("mov16", "mov32", "fmovh", "fmovs"),
    *("add16", "addc16", "sub16", "and16", "or16", "xor16", "sll16", "slr16", "sar16"),
    *("faddh", "fadds", "faddhs", "fsubh", "fsubs", "fmulh", "fmuls", "fmaxh", "fmaxs"),
    *("fmach", "fmacs", "fmachs"),
    *("fnegh", "fnegs", "fabsh", "fabss", "clz", "ctz", "popcnt", "fh2s", "fs2h"),
    *("fh2xp16", "fs2xp16", "xp162fh", "xp162fs", "fnormh", "fnorms", "fscaleh", "fscales"),
)
"""DSD operations, named as the builtins without `@`."""


class DsdKind(IntEnum):
    """What a 64-bit descriptor describes: its bits 63 to 60."""

    NONE = 0
    MEMORY = 1
    SHAPED = 2
    CIRCULAR = 3
    FABRIC_IN = 4
    FABRIC_OUT = 5


class OperandKind(IntEnum):
    """How an instruction names an operand of a DSD operation."""

    NONE = 0
    DESCRIPTOR = 1
    SCALAR = 2
    PLACE = 3
    DSR = 4
    FIFO = 5


class Fault(IntEnum):
    """Why the simulation stopped."""

    NONE = 0
    MEMORY = 1
    ASSERTION = 2
    DIVISION = 3
    MICROTHREAD_BUSY = 4
    QUEUE_BUSY = 5
    TWO_ARRIVALS = 6
    NO_TASK = 7
    NULL_FUNCTION = 8
    NO_QUEUE = 9
    BAD_OPERAND = 10
    STACK = 11
    FIFO_FAULT = 12
    NO_SWITCH = 13


INSTRUCTION = np.dtype(
    [("op", "<u2"), ("a", "<u2"), ("b", "<u2"), ("c", "<u2"), ("imm", "<i4"), ("cost", "<i4")]
)
"""`imm` is a jump target, an offset, a width or an index of a table; `cost` counts clock cycles."""


class TargetNumber(IntEnum):
    """What an id names, in the order of `csl.program.TargetKind`."""

    LOCAL_TASK = 0
    DATA_TASK = 1
    CONTROL_TASK = 2
    COLOR = 3
    INPUT_QUEUE = 4
    MICROTHREAD = 5


SERVICES = (
    *("coordinate_x", "coordinate_y"),
    *("timestamp_enable", "timestamp_disable", "timestamp_reset", "timestamp_read"),
    *("random16", "random_select", "random_seed"),
    *("unblock_command_stream", "print_character"),
    *("set_routes", "switch_clear_position", "switch_invalidate", "switch_set"),
    *("switch_ring_mode", "switch_pop_mode", "teardown_exit", "teardown_pending"),
    *("filter_set_active", "filter_set_counter", "filter_set_limit", "filter_set_range"),
    *("queue_flush", "queue_flush_exit", "queue_flush_pending"),
    *("queue_bind_input", "queue_bind_output", "queue_is_empty", "queue_is_full"),
    *("task_priority", "main_thread_priority", "fifo_set_read_length", "fifo_set_write_length"),
    *("config_read", "config_write", "data_filter"),
    *("sqrt", "exp", "log", "sin", "cos", "tanh", "pow", "floor", "ceil", "scale"),
)
"""Services of the machine that libraries call, as `csl.program` names them. Those from
`unblock_command_stream` to `data_filter` take effect in their own cycle."""
