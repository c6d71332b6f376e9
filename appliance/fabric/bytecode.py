"""The byte code that a processing element executes: operation numbers and record layouts.

A task is an array of 16-byte instructions over the 64-bit slots of the PE's frame. Constants are
slots too. Whatever can wait (DSD operations on the fabric, `@map` over wavelets) is one
instruction whose progress lies in the PE, so a task stops and goes on anywhere: its whole state is
a program counter and the frame.

This module is the one place for these numbers; `native.build` writes them into a C header.
"""

from enum import IntEnum

import numpy as np


class Op(IntEnum):
    """Instructions. The suffix of a typed one is the type of its result."""

    STOP = 0
    MOV = 1
    ADD_I8 = 2
    ADD_U8 = 3
    ADD_I16 = 4
    ADD_U16 = 5
    ADD_I32 = 6
    ADD_U32 = 7
    ADD_I64 = 8
    ADD_U64 = 9
    SUB_I8 = 10
    SUB_U8 = 11
    SUB_I16 = 12
    SUB_U16 = 13
    SUB_I32 = 14
    SUB_U32 = 15
    SUB_I64 = 16
    SUB_U64 = 17
    MUL_I8 = 18
    MUL_U8 = 19
    MUL_I16 = 20
    MUL_U16 = 21
    MUL_I32 = 22
    MUL_U32 = 23
    MUL_I64 = 24
    MUL_U64 = 25
    SHL_I8 = 26
    SHL_U8 = 27
    SHL_I16 = 28
    SHL_U16 = 29
    SHL_I32 = 30
    SHL_U32 = 31
    SHL_I64 = 32
    SHL_U64 = 33
    AND = 34
    OR = 35
    XOR = 36
    NOT = 37
    SHR_S = 38
    SHR_U = 39
    DIV_S = 40
    DIV_U = 41
    REM_S = 42
    REM_U = 43
    EXTEND_S = 44
    EXTEND_U = 45
    EQ = 46
    NE = 47
    LT_S = 48
    LE_S = 49
    LT_U = 50
    LE_U = 51
    FADD_F32 = 52
    FADD_F16 = 53
    FSUB_F32 = 54
    FSUB_F16 = 55
    FMUL_F32 = 56
    FMUL_F16 = 57
    FDIV_F32 = 58
    FDIV_F16 = 59
    FREM_F32 = 60
    FREM_F16 = 61
    FNEG_F32 = 62
    FNEG_F16 = 63
    FEQ_F32 = 64
    FEQ_F16 = 65
    FNE_F32 = 66
    FNE_F16 = 67
    FLT_F32 = 68
    FLT_F16 = 69
    FLE_F32 = 70
    FLE_F16 = 71
    S_TO_F32 = 72
    U_TO_F32 = 73
    S_TO_F16 = 74
    U_TO_F16 = 75
    F32_TO_S = 76
    F32_TO_U = 77
    F16_TO_S = 78
    F16_TO_U = 79
    F32_TO_F16 = 80
    F16_TO_F32 = 81
    F32_TO_BOOL = 82
    F16_TO_BOOL = 83
    LOAD_I16 = 84
    LOAD_U16 = 85
    LOAD_I32 = 86
    LOAD_U32 = 87
    LOAD_64 = 88
    STORE_16 = 89
    STORE_32 = 90
    STORE_64 = 91
    COPY = 92
    JUMP = 93
    IF = 94
    IF_NOT = 95
    IF_EQ = 96
    IF_NE = 97
    IF_LT_S = 98
    IF_LE_S = 99
    IF_LT_U = 100
    IF_LE_U = 101
    CALL = 102
    CALL_POINTER = 103
    RETURN = 104
    SAVE = 105
    RESTORE = 106
    ACTIVATE = 107
    SET_BLOCKED = 108
    ASSERT = 109
    DSD_LENGTH = 110
    DSD_BASE = 111
    DSD_STRIDE = 112
    DSD_ADVANCE = 113
    DSD_COLOR = 114
    DSD_SHAPE = 115
    VECTOR = 116
    LOAD_DSR = 117
    MAP_BEGIN = 118
    MAP_NEXT = 119
    MAP_PUT = 120
    INTRINSIC = 121
    INDEX_LOAD_U32 = 122
    INDEX_LOAD_U16 = 123
    INDEX_LOAD_I16 = 124
    INDEX_LOAD_I32 = 125
    INDEX_STORE_32 = 126
    INDEX_STORE_16 = 127
    CHECK_INDEX = 128


BREAK = 0x100
"""Bit of an instruction's number: a breakpoint, at which PEs stop that somebody watches."""


VECTOR_OPS = (
    *("mov16", "mov32", "fmovh", "fmovs"),
    *("add16", "addc16", "sub16", "and16", "or16", "xor16", "sll16", "slr16", "sar16"),
    *("faddh", "fadds", "faddhs", "faddsh", "fsubh", "fsubs", "fmulh", "fmuls", "fmaxh", "fmaxs"),
    *("fmach", "fmacs", "fmachs"),
    *("fnegh", "fnegs", "fabsh", "fabss", "clz", "ctz", "popcnt", "fh2s", "fs2h"),
    *("fh2xp16", "fs2xp16", "xp162fh", "xp162fs", "fnormh", "fnorms", "fscaleh", "fscales"),
    "dfilt",
)
"""DSD operations, named as the builtins without `@`; `faddsh` is `@faddhs` with the f32 first."""


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
    NO_REGISTER = 14
    NO_DSD = 15
    NO_OPERAND = 16
    NO_END = 17
    NO_FIFO = 18
    INDEX = 19


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
    *("switch_ring_mode", "switch_pop_mode", "switch_set_position", "get_routes"),
    *("teardown_exit", "teardown_pending"),
    *("filter_set_active", "filter_set_counter", "filter_set_limit", "filter_set_range"),
    *("queue_flush", "queue_flush_exit", "queue_flush_pending"),
    *("queue_bind_input", "queue_bind_output", "queue_is_empty", "queue_is_full"),
    *("task_priority", "main_thread_priority", "fifo_set_read_length", "fifo_set_write_length"),
    *("config_read", "config_write"),
    *("sqrt", "exp", "log", "sin", "cos", "tanh", "pow", "floor", "ceil", "scale"),
)
"""Services of the machine that libraries call, as `csl.program` names them. Those from
`unblock_command_stream` to `config_write` take effect in their own cycle."""

MAX_ARGUMENTS = 16
"""Most arguments of a function that the host calls."""
OPERANDS_PER_SITE = 9
OPERAND_SITE = np.dtype([("kind", "u1"), ("file", "u1"), ("slot", "<u2")])
SETTINGS = np.dtype(
    [
        ("asynchronous", "u1"),
        ("completion", "u1"),
        ("target_kind", "u1"),
        ("control_terminate", "u1"),
        ("control_action", "u1"),
        ("control_kind", "u1"),
        ("priority", "u1"),
        ("microthread", "u1"),
        ("target_slot", "<u2"),
        ("control_slot", "<u2"),
        ("index_slot", "<u2"),
        ("reserved", "<u2"),
    ]
)
SITE = np.dtype(
    [
        ("op", "<u2"),
        ("cost", "<u2"),
        ("position", "<u4"),
        ("operands", OPERAND_SITE, (OPERANDS_PER_SITE,)),
        ("widths", "u1", (OPERANDS_PER_SITE,)),
        ("steps", "u1", (OPERANDS_PER_SITE,)),
        ("is_signed", "u1", (OPERANDS_PER_SITE,)),
        ("file", "u1"),
        ("number", "u1"),
        ("save_address", "u1"),
        ("single_step", "u1"),
        ("simd", "u1"),
        ("settings", SETTINGS),
    ]
)
"""Where a DSD operation, `@load_to_dsr` or `@map` stands in the code: its operands and settings."""
SHAPE = np.dtype(
    [
        ("rank", "<u2"),
        ("extents", "<u2", (4,)),
        ("strides", "<i2", (4,)),
        ("base", "<u2"),
        ("wrap", "<u2"),
        ("reserved", "<u2", (5,)),
    ]
)
FIFO = np.dtype(
    [
        ("address", "<u4"),
        ("capacity", "<u4"),
        ("head", "<u4"),
        ("count", "<u4"),
        ("read_length", "<u4"),
        ("write_length", "<u4"),
        ("element_bytes", "u1"),
        ("activate_pop", "u1"),
        ("activate_push", "u1"),
        ("empty_action", "u1"),
        ("full_action", "u1"),
        ("was_full", "u1"),
        ("was_empty", "u1"),
        ("reserved", "u1"),
    ]
)
FILTER = np.dtype(
    [
        ("is_active", "u1"),
        ("kind", "u1"),
        ("count_data", "u1"),
        ("count_control", "u1"),
        ("filter_control", "u1"),
        ("has_limit2", "u1"),
        ("stage", "u1"),
        ("reserved", "u1"),
        ("counter", "<u4"),
        ("init_counter", "<u4"),
        ("max_counter", "<u4"),
        ("limit1", "<u4"),
        ("limit2", "<u4"),
        ("min_index", "<u4"),
        ("max_index", "<u4"),
        ("pad", "<u4"),
    ]
)
COLOR_CONFIG = np.dtype(
    [
        ("color", "u1"),
        ("is_used", "u1"),
        ("rx", "u1"),
        ("tx", "u1"),
        ("rx_at", "u1", (4,)),
        ("tx_at", "u1", (4,)),
        ("valid", "u1"),
        ("position", "u1"),
        ("ring", "u1"),
        ("pop_mode", "u1"),
        ("swap_x", "u1"),
        ("swap_y", "u1"),
        ("teardown", "u1"),
        ("has_switch", "u1"),
        ("filter", FILTER),
    ]
)
_POINTERS = (
    *("code", "frame", "memory", "sites", "shapes", "functions", "fifos"),
    *("local_tasks", "data_tasks", "control_tasks", "data_widths", "control_widths", "handlers"),
)
_COUNTS = ("code", "slots", "memory", "functions", "fifos", "shapes")
NUM_QUEUES = 8
NUM_COLORS = 24
CLASS_IMAGE = np.dtype(
    [(name, "<u8") for name in _POINTERS]
    + [
        (f"num_{name}", "<u4")
        for name in ("code", "slots", "memory", "functions", "fifos", "shapes")
    ]
    + [(name, "<u8") for name in ("active", "blocked_local", "blocked_data", "blocked_color")]
    + [("blocked_queue", "<u8")]
    + [(name, "u1", (NUM_QUEUES,)) for name in ("input_color", "output_color", "input_priority")]
    + [("control_table", "u1", (NUM_QUEUES,)), ("start", "<u4"), ("reserved", "<u4")]
    + [("queue_of_color", "u1", (NUM_COLORS,)), ("limits", "<u8")]
    + [("num_limits", "<u4"), ("unused", "<u4")]
)
"""A code class as the kernel reads it: addresses of its tables, counts, start state."""
TRACE_EVENT = np.dtype(
    [(name, kind) for name, kind in (("cycle", "<u8"), ("pe", "<u4"), ("a", "<u4"), ("b", "<u4"))]
    + [(name, "u1") for name in ("kind", "color", "ports", "more")]
)
"""What `trace.h` records."""


class TraceKind(IntEnum):
    """What an event of a trace says; `trace.h` tells what its fields mean."""

    HOP = 1
    SEND = 2
    TAKE = 3
    HOST_IN = 4
    HOST_OUT = 5
    TASK = 6
    TASK_END = 7
    START = 8
    FINISH = 9
    VECTOR = 10


RECORDS = (INSTRUCTION, SITE, SHAPE, COLOR_CONFIG, CLASS_IMAGE, FIFO, SETTINGS, TRACE_EVENT)
"""In the order in which the kernel reports their sizes."""
NONE_8 = 0xFF
NONE_16 = 0xFFFF
NONE_32 = 0xFFFFFFFF
