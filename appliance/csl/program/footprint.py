"""How much of a PE's memory its code takes: an estimate of ours, in 16-bit words.

The 48 kB of a PE hold its code and its variables. Neither the encoding of instructions nor what the
vendor's compiler makes of a program is published, so words are counted per operation of the
typed program, from what the machine is known to have: 16-bit words, general registers, DSRs that
vector operations name, and no operation that takes a DSD itself. docs/decisions/0075 gives the
reasons. The machine's services are counted where they are used, as what their bodies would
take: once for each function of mathematics, in line for the rest.
"""

from collections.abc import Iterable

from appliance.csl.program.code import Function, InitialDsrLoad, TaskBinding
from appliance.csl.program.instructions import (
    Binary,
    Branch,
    Call,
    CallIndirect,
    CheckIndex,
    Convert,
    Copy,
    Instruction,
    Jump,
    Load,
    Move,
    Return,
    Store,
    Switch,
    Terminator,
    Unary,
)
from appliance.csl.program.operands import (
    Address,
    Constant,
    Descriptor,
    DescriptorConstant,
    FabricInDescriptor,
    FabricOutDescriptor,
    MemoryDescriptor,
    Register,
)
from appliance.csl.program.operations import (
    Activate,
    Assert,
    DsdMake,
    DsdOperation,
    DsdUpdate,
    Intrinsic,
    LoadDsr,
    Map,
    MapInput,
    OperationSettings,
    SetBlocked,
)

INSTRUCTION_WORDS = 2
"""One instruction: 32 bits, enough for an operation and three registers."""
DESCRIPTOR_WORDS = {"memory": 4, "fabric": 3}
"""What a DSR is loaded from: address, extent, stride and flags, or extent, queue and flags."""
FUNCTION_WORDS = {
    **dict.fromkeys(("sqrt", "exp", "log", "sin", "cos", "tanh"), 64),
    **dict.fromkeys(("floor", "ceil", "scale"), 16),
    "pow": 128,
    "random16": 8,
    "divide": 48,
}
"""Bodies that a program holds once, however often it uses them."""
SERVICE_INSTRUCTIONS = 4
"""A service of the machine: its address, its operands, one or two accesses of a register."""
TASK_WORDS = 2
"""An entry of the table of tasks."""

_SHORT_BITS = 16


def code_words(function: Function) -> int:
    """Return the words that a function's code takes, without the bodies that it shares."""
    entry_and_exit = 2 * INSTRUCTION_WORDS
    words = sum(
        sum(_instruction(item) for item in block.instructions) + _terminator(block.terminator)
        for block in function.blocks
    )
    return entry_and_exit + words


def shared_words(functions: Iterable[Function]) -> dict[str, int]:
    """Return the bodies that functions share: name and words of each."""
    names = {
        name
        for function in functions
        for block in function.blocks
        for item in block.instructions
        if (name := _shared(item))
    }
    return {name: FUNCTION_WORDS[name] for name in sorted(names)}


def start_words(tasks: Iterable[TaskBinding], loads: Iterable[InitialDsrLoad]) -> int:
    """Return the words of what a PE does before its first task, and of its table of tasks."""
    loaded = sum(_loaded(load.source) for load in loads)
    return loaded + sum(TASK_WORDS for _ in tasks)


def _shared(item: Instruction) -> str:
    if isinstance(item, Intrinsic):
        return item.name if item.name in FUNCTION_WORDS else ""
    return "divide" if isinstance(item, Binary) and item.op in ("div", "rem") else ""


def _instruction(item: Instruction) -> int:
    words = _SIZES[item.__class__](item)
    assert isinstance(words, int)
    return words


def _operands(*operands: object) -> int:
    """Return the words of constants that an instruction cannot hold itself."""
    return sum(_operand(operand) for operand in operands)


def _operand(operand: object) -> int:
    match operand:
        case Constant(type=type_, value=value):
            if type_.bits > _SHORT_BITS:
                return 2
            return 0 if value in (0, 1) else 1
        case Address():
            return 1
        case _:
            return 0


def _wide(bits: int) -> int:
    """Return the number of instructions for a value of a width, where 32 bits need one."""
    return max(1, -(-bits // 32))


def _copy(item: Copy) -> int:
    """Two descriptors and one operation, as a program would write it."""
    return 2 * (INSTRUCTION_WORDS + DESCRIPTOR_WORDS["memory"]) + INSTRUCTION_WORDS


def _call(item: Call) -> int:
    return INSTRUCTION_WORDS * (1 + len(item.arguments)) + 1 + _operands(*item.arguments)


def _call_indirect(item: CallIndirect) -> int:
    return INSTRUCTION_WORDS * (1 + len(item.arguments)) + _operands(item.pointer, *item.arguments)


def _intrinsic(item: Intrinsic) -> int:
    if item.name in FUNCTION_WORDS:
        return INSTRUCTION_WORDS * (1 + len(item.arguments)) + 1
    return INSTRUCTION_WORDS * SERVICE_INSTRUCTIONS + _operands(*item.arguments)


def _descriptor(descriptor: Descriptor) -> int:
    if isinstance(descriptor, FabricInDescriptor | FabricOutDescriptor):
        return DESCRIPTOR_WORDS["fabric"]
    more = 2 * (len(descriptor.extents) - 1) if isinstance(descriptor, MemoryDescriptor) else 2
    return DESCRIPTOR_WORDS["memory"] + more


def _loaded(operand: object) -> int:
    """Return the words that bring an operand into a DSR; none if it is there, or a scalar."""
    match operand:
        case DescriptorConstant(descriptor=descriptor):
            return INSTRUCTION_WORDS + _descriptor(descriptor)
        case Register():
            return INSTRUCTION_WORDS
        case _:
            return _operand(operand)


def _settings(settings: OperationSettings) -> int:
    chosen = (settings.completion, settings.on_control, settings.index, settings.microthread)
    return INSTRUCTION_WORDS * sum(1 for each in chosen if each is not None)


def _operation(item: DsdOperation) -> int:
    operands = sum(_loaded(operand) for operand in item.operands)
    return INSTRUCTION_WORDS + operands + _settings(item.settings)


def _map(item: Map) -> int:
    """A loop: operands before it; in it the elements, the call, the result and the branch."""
    before = sum(_map_input(entry) for entry in item.inputs) + _loaded(item.output)
    turn = INSTRUCTION_WORDS * (len(item.inputs) + 2 + (item.output is not None)) + 1
    return before + turn + INSTRUCTION_WORDS + _settings(item.settings)


def _map_input(entry: MapInput) -> int:
    return _loaded(entry.operand)


def _load_dsr(item: LoadDsr) -> int:
    extra = sum(1 for each in (item.extended, item.stride_register) if each is not None)
    return _loaded(item.source) + INSTRUCTION_WORDS * extra + _settings(item.settings)


def _make(item: DsdMake) -> int:
    given = (item.base, item.offset, item.color, *item.extents, *item.strides)
    fields = [each for each in given if each is not None]
    return INSTRUCTION_WORDS * len(fields) + _operands(*fields) + DESCRIPTOR_WORDS["memory"]


def _binary(item: Binary) -> int:
    if item.op in ("div", "rem"):
        return INSTRUCTION_WORDS * 3 + 1 + _operands(item.a, item.b)
    return INSTRUCTION_WORDS * _wide(item.type.bits) + _operands(item.a, item.b)


_SIZES = {
    Move: lambda item: INSTRUCTION_WORDS + _operands(item.source),
    Unary: lambda item: INSTRUCTION_WORDS * _wide(item.type.bits) + _operands(item.a),
    Binary: _binary,
    Convert: lambda item: INSTRUCTION_WORDS + _operands(item.source),
    Load: lambda item: INSTRUCTION_WORDS + _operands(item.address) + bool(item.offset),
    Store: lambda item: (
        INSTRUCTION_WORDS + _operands(item.address, item.source) + bool(item.offset)
    ),
    Copy: _copy,
    Call: _call,
    CallIndirect: _call_indirect,
    Activate: lambda item: INSTRUCTION_WORDS,
    SetBlocked: lambda item: INSTRUCTION_WORDS,
    Assert: lambda item: 0,
    CheckIndex: lambda item: 0,
    DsdMake: _make,
    DsdUpdate: lambda item: INSTRUCTION_WORDS + _operands(item.value),
    DsdOperation: _operation,
    LoadDsr: _load_dsr,
    Map: _map,
    Intrinsic: _intrinsic,
}
"""By kind of instruction. `@assert` takes none: the machine ignores it."""


def _terminator(item: Terminator) -> int:
    match item:
        case Jump():
            return INSTRUCTION_WORDS
        case Branch():
            return 2 * INSTRUCTION_WORDS
        case Switch(cases=cases):
            return (2 * INSTRUCTION_WORDS + 1) * len(cases) + INSTRUCTION_WORDS
        case Return(value=value):
            return INSTRUCTION_WORDS + _operands(value)
        case _:
            return 0
