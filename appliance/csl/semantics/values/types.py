"""Types of the language. Equal types are one object, so `is` compares them."""

from dataclasses import dataclass, field
from functools import cache

from appliance.csl.program.types import (
    BOOL as M_BOOL,
)
from appliance.csl.program.types import (
    POINTER,
    DescriptorType,
    MachineType,
    Scalar,
)

MAX_NAME = 300
"""Characters of an anonymous type's name in messages."""

MAX_INT_BITS = 64
"""Of an integer at run time."""
MAX_ELEMENTS = 1 << 22
"""Most elements of one value."""
MAX_PARTS = 1 << 12
"""Most parts of one struct, with those of the structs in it."""
ELEMENTS_PER_STEP = 64
"""Elements whose copy costs about what a turn of a loop does."""


@dataclass(slots=True, eq=False, repr=False)
class Type:
    """A type; `name` is what messages call it."""

    name: str
    machine: MachineType | None = field(default=None, init=False)
    """What a register holds of it; None for types that no register holds."""
    num_elements: int = field(default=1, init=False)
    """Numbers and other single values in a value of it, at compile time."""
    num_parts: int = field(default=1, init=False)
    """The same, but an array counts as one: how much walking through the type costs."""

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True, eq=False, repr=False)
class IntType(Type):
    """An integer of fixed width."""

    bits: int
    signed: bool

    @property
    def low(self) -> int:
        """Smallest value."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """Largest value."""
        return (1 << (self.bits - self.signed)) - 1


@dataclass(slots=True, eq=False, repr=False)
class FloatType(Type):
    """`f32`, or one of the 16-bit formats, of which one exists at run time.

    `f16` that exists at run time and `f16` that exists at compile time only are two types; a
    compilation has one of them, as its `--fp16-format` says.
    """

    bits: int
    format: str


@dataclass(slots=True, eq=False, repr=False)
class HandleType(Type):
    """A number of the machine: a color, a task id, a queue."""


@dataclass(slots=True, eq=False, repr=False)
class DsdType(Type):
    """A DSD."""

    descriptor: DescriptorType


@dataclass(slots=True, eq=False, repr=False)
class DsrType(Type):
    """A data structure register."""


@dataclass(slots=True, eq=False, repr=False)
class ArrayType(Type):
    """An array in row-major order."""

    dimensions: tuple[int, ...]
    element: Type

    @property
    def count(self) -> int:
        """Number of elements."""
        count = 1
        for dimension in self.dimensions:
            count *= dimension
        return count


@dataclass(slots=True, eq=False, repr=False)
class PointerType(Type):
    """`*T`, and `[*]T` if `many`."""

    target: Type
    const: bool
    many: bool


@dataclass(slots=True, eq=False, repr=False)
class FunctionType(Type):
    """`fn (...) R` or `task (...) R`; a parameter is None for `anytype`."""

    parameters: tuple[Type | None, ...]
    result: Type
    is_task: bool


@dataclass(slots=True, eq=False, repr=False)
class StructType(Type):
    """A struct, a union, or (fields without names) a tuple.

    `identity` is None for anonymous types, which are equal if their fields are.
    """

    field_names: tuple[str, ...]
    field_types: list[Type]
    identity: object
    is_tuple: bool
    is_union: bool = False
    is_extern: bool = False
    index: dict[str, int] = field(default_factory=dict, init=False)


@dataclass(slots=True, eq=False, repr=False)
class PackedType(Type):
    """A packed struct or union: one number, and `shifts` says which bits each field is.

    The first field of a struct is its lowest bits; the fields of a union all begin at bit 0.
    """

    field_names: tuple[str, ...]
    field_types: list[Type]
    identity: object
    is_union: bool
    bits: int
    shifts: tuple[int, ...]
    index: dict[str, int] = field(default_factory=dict, init=False)


@dataclass(slots=True, eq=False, repr=False)
class EnumType(Type):
    """An enum."""

    base: IntType
    members: dict[str, int]
    identity: object


@dataclass(slots=True, eq=False, repr=False)
class RangeType(Type):
    """What `@range(T, ...)` gives."""

    element: Type


def _handle(name: str) -> HandleType:
    made = HandleType(name)
    made.machine = POINTER
    return made


def _simple(name: str, machine: MachineType | None = None) -> Type:
    made = Type(name)
    made.machine = machine
    return made


VOID = _simple("void")
BOOL = _simple("bool", M_BOOL)
COMPTIME_INT = _simple("comptime_int")
COMPTIME_FLOAT = _simple("comptime_float")
TYPE = _simple("type")
STRING = _simple("comptime_string")
MODULE = _simple("imported_module")
COMPTIME_STRUCT = _simple("comptime_struct")
ANYOPAQUE = _simple("anyopaque")
FIFO = _simple("fifo")
POISON = _simple("<error>")
"""The type of what could not be analysed; it silences further errors."""
UNDEFINED = _simple("<undefined>")

DIRECTION = _handle("direction")
COLOR = _handle("color")
LOCAL_TASK = _handle("local_task_id")
DATA_TASK = _handle("data_task_id")
CONTROL_TASK = _handle("control_task_id")
INPUT_QUEUE = _handle("input_queue")
OUTPUT_QUEUE = _handle("output_queue")
MICROTHREAD = _handle("ut_id")

NAMED: dict[str, Type] = {
    t.name: t
    for t in (
        VOID, BOOL, COMPTIME_INT, COMPTIME_FLOAT, TYPE, STRING, MODULE, COMPTIME_STRUCT, ANYOPAQUE,
        DIRECTION, COLOR, LOCAL_TASK, DATA_TASK, CONTROL_TASK, INPUT_QUEUE, OUTPUT_QUEUE,
        MICROTHREAD,
    )
}  # fmt: skip


@cache
def int_type(bits: int, signed: bool) -> IntType:
    """The integer type of a width; up to 64 bits it exists at run time."""
    made = IntType(f"{'i' if signed else 'u'}{bits}", bits, signed)
    if bits <= MAX_INT_BITS:
        made.machine = Scalar("int" if signed else "uint", bits)
    return made


@cache
def half_type(name: str, *, at_run_time: bool) -> FloatType:
    """A 16-bit float type, as the format of the machine or as one of compile time only."""
    made = FloatType(name, 16, name)
    if at_run_time:
        made.machine = Scalar("float", 16)
    return made


F32 = FloatType("f32", 32, "f32")
F32.machine = Scalar("float", 32)
NAMED[F32.name] = F32
HALF_FORMATS = ("f16", "bf16", "cb16")
F16 = half_type("f16", at_run_time=True)
for _half in HALF_FORMATS:
    NAMED[_half] = half_type(_half, at_run_time=_half == "f16")
I8, I16, I32, I64 = (int_type(bits, True) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (int_type(bits, False) for bits in (8, 16, 32, 64))
for _known in (I8, I16, I32, I64, U8, U16, U32, U64):
    NAMED[_known.name] = _known
for _descriptor in DescriptorType:
    _dsd = DsdType(_descriptor.value, _descriptor)
    _dsd.machine = _descriptor
    NAMED[_dsd.name] = _dsd
for _name in ("dsr_dest", "dsr_src0", "dsr_src1", "dsr_fifo_dest", "dsr_fifo_src1", "xdsr", "sr"):
    NAMED[_name] = DsrType(_name)
DSD = {descriptor: NAMED[descriptor.value] for descriptor in DescriptorType}


def named_type(name: str, fp16_format: str) -> Type | None:
    """A type that every file knows, `u7` and the like included.

    Args:
        name: What the source calls it.
        fp16_format: The 16-bit float format that exists at run time.
    """
    if name in HALF_FORMATS:
        return half_type(name, at_run_time=name == fp16_format)
    found = NAMED.get(name)
    if found is None and name[0] in "iu" and name[1:].isdigit() and name[1] != "0":
        bits = int(name[1:])
        if bits <= 16777215:
            return int_type(bits, name[0] == "i")
    return found


@cache
def array_type(dimensions: tuple[int, ...], element: Type) -> ArrayType:
    """`[dimensions]element`."""
    shape = ", ".join(map(str, dimensions))
    made = ArrayType(f"[{shape}]{element}", dimensions, element)
    made.num_parts = element.num_parts
    made.num_elements = made.count * element.num_elements
    return made


@cache
def pointer_type(target: Type, *, const: bool = False, many: bool = False) -> PointerType:
    """`*target` or `[*]target`."""
    made = PointerType(
        f"{'[*]' if many else '*'}{'const ' if const else ''}{target}", target, const, many
    )
    made.machine = POINTER
    return made


@cache
def function_type(
    parameters: tuple[Type | None, ...], result: Type, *, is_task: bool = False
) -> FunctionType:
    """`fn (parameters) result`."""
    texts = ", ".join(str(p) if p else "anytype" for p in parameters)
    made = FunctionType(
        f"{'task' if is_task else 'fn'}({texts}) {result}", parameters, result, is_task
    )
    if not is_task:
        made.machine = POINTER
    return made


@cache
def range_type(element: Type) -> RangeType:
    """The type of a range."""
    return RangeType(f"range({element})", element)


@cache
def anonymous_struct(names: tuple[str, ...], types: tuple[Type, ...]) -> StructType:
    """The type of `.{ .name = value, ... }`, or of a tuple if there are no names."""
    if len(names) == len(types) and names:
        fields = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
        made = StructType(_short(f"struct {{{fields}}}"), names, list(types), None, is_tuple=False)
    else:
        made = StructType(
            _short(f"tuple {{{', '.join(map(str, types))}}}"), (), list(types), None, is_tuple=True
        )
    made.index.update({name: i for i, name in enumerate(names)})
    count_fields(made)
    return made


def count_fields(made: StructType) -> None:
    """Sets the numbers of elements and parts of a struct from those of its fields."""
    made.num_elements = sum(field_type.num_elements for field_type in made.field_types)
    made.num_parts = sum(field_type.num_parts for field_type in made.field_types)


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 4]}...}}"


MAX_PACKED_BITS = 64
"""Most bits of a packed struct or union: what a register holds."""


def bit_width(type_: Type) -> int | None:
    """Bits that a value has in a packed struct; None for types that cannot be in one."""
    if isinstance(type_, IntType | FloatType | PackedType):
        return None if type_.machine is None else type_.bits
    if isinstance(type_, EnumType):
        return type_.base.bits
    if isinstance(type_, PointerType):
        return 16
    return 1 if type_ is BOOL else None


def packed_type(
    name: str, names: tuple[str, ...], types: list[Type], identity: object, *, is_union: bool
) -> PackedType:
    """A packed struct or union of fields that have a `bit_width`."""
    widths = [bit_width(type_) or 0 for type_ in types]
    shifts = tuple(0 if is_union else sum(widths[:at]) for at in range(len(widths)))
    bits = max(widths, default=0) if is_union else sum(widths)
    made = PackedType(name, names, types, identity, is_union, bits, shifts)
    made.index.update({name: at for at, name in enumerate(names)})
    made.machine = Scalar("uint", bits)
    return made


def is_comptime_only(type_: Type) -> bool:
    """Whether values of a type exist only at compile time."""
    if isinstance(type_, ArrayType):
        return is_comptime_only(type_.element)
    if isinstance(type_, StructType):
        return any(is_comptime_only(t) for t in type_.field_types)
    return type_.machine is None and type_ is not VOID


def remedy_of(type_: Type) -> str:
    """What to write instead of a variable of a type with integers that no register holds."""
    if isinstance(type_, ArrayType):
        return remedy_of(type_.element)
    if isinstance(type_, StructType):
        return next((text for each in type_.field_types if (text := remedy_of(each))), "")
    if not isinstance(type_, IntType) or type_.bits <= MAX_INT_BITS:
        return ""
    return (
        f"; integers of '{type_}' exist at compile time only, since a PE computes with "
        f"{MAX_INT_BITS} bits at most: keep several u{MAX_INT_BITS}"
    )


def size_of(type_: Type) -> int:
    """Bytes in memory."""
    if type_.machine is not None:
        return type_.machine.num_bytes
    if isinstance(type_, ArrayType):
        return type_.count * stride_of(type_.element)
    if isinstance(type_, StructType):
        return _round_up(struct_offsets(type_)[1], align_of(type_))
    return 0


def stride_of(element: Type) -> int:
    """Bytes from one element of an array to the next."""
    return _round_up(size_of(element), align_of(element))


def align_of(type_: Type) -> int:
    """What an address in memory is a multiple of."""
    if type_.machine is not None:
        return type_.machine.alignment
    if isinstance(type_, ArrayType):
        return align_of(type_.element)
    if isinstance(type_, StructType):
        return max((align_of(t) for t in type_.field_types), default=2)
    return 2


def struct_offsets(type_: StructType) -> tuple[list[int], int]:
    """Byte offsets of the fields, and where the last one ends."""
    offsets: list[int] = []
    end = 0
    for field_type in type_.field_types:
        start = 0 if type_.is_union else _round_up(end, align_of(field_type))
        offsets.append(start)
        end = max(end, start + size_of(field_type))
    return offsets, end


def _round_up(value: int, multiple: int) -> int:
    return (value + multiple - 1) // multiple * multiple
