"""Scalar instructions: arithmetic, conversions, memory."""

from appliance.csl.program import (
    Binary,
    CheckIndex,
    Constant,
    Convert,
    Copy,
    Load,
    MachineType,
    Move,
    Scalar,
    Store,
    Unary,
)
from appliance.fabric.bytecode import Op
from appliance.fabric.lowering.body import Body
from appliance.fabric.optimising.elements import LoadElement, StoreElement
from appliance.wafer.instruction_costs import SCALAR_CYCLES

_INTEGER_SUFFIX = {(8, True): "I8", (8, False): "U8", (16, True): "I16", (16, False): "U16"} | {
    (32, True): "I32",
    (32, False): "U32",
    (64, True): "I64",
    (64, False): "U64",
}
_TYPED = {"add": "ADD", "sub": "SUB", "mul": "MUL", "shl": "SHL"}
_UNTYPED = {"and": Op.AND, "or": Op.OR, "xor": Op.XOR}
_FLOAT = {"add": "FADD", "sub": "FSUB", "mul": "FMUL", "div": "FDIV", "rem": "FREM"}
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_MINUS_ONE = (1 << 64) - 1


def move(body: Body, i: Move) -> None:
    """Lower `dest = source`."""
    body.code.emit(Op.MOV, body.slot(i.dest), body.operand(i.source), cost=1)


def unary(body: Body, i: Unary) -> None:
    """Lower negation and complement."""
    dest, a = body.slot(i.dest), body.operand(i.a)
    if i.op == "neg" and i.type.is_float:
        body.code.emit(Op[f"FNEG_F{i.type.bits}"], dest, a)
    elif i.op == "neg":
        _wrapping(body, "SUB", i.type, dest=dest, a=body.frame.constant(0), b=a)
    else:
        ones = _MINUS_ONE if i.type.is_signed else (1 << i.type.bits) - 1
        body.code.emit(Op.XOR, dest, a, body.frame.constant(ones))


def binary(body: Body, i: Binary) -> None:
    """Lower arithmetic and comparisons."""
    dest, a, b = body.slot(i.dest), body.operand(i.a), body.operand(i.b)
    if i.op in COMPARISONS:
        _compare(body, i.op, i.type, dest=dest, a=a, b=b)
    elif i.type.is_float:
        body.code.emit(Op[f"{_FLOAT[i.op]}_F{i.type.bits}"], dest, a, b)
    elif i.op in _TYPED:
        _wrapping(body, _TYPED[i.op], i.type, dest=dest, a=a, b=b)
    elif i.op in _UNTYPED:
        body.code.emit(_UNTYPED[i.op], dest, a, b)
    else:
        _divide_or_shift(body, i, dest=dest, a=a, b=b)


def _divide_or_shift(body: Body, i: Binary, *, dest: int, a: int, b: int) -> None:
    sign = "S" if i.type.is_signed else "U"
    name = {"div": "DIV", "rem": "REM", "shr": "SHR"}[i.op]
    body.code.emit(Op[f"{name}_{sign}"], dest, a, b, cost=_cycles_of(i))
    if i.op == "div" and i.type.is_signed and i.type.bits < 64:
        # The least value divided by -1 wraps.
        body.code.emit(Op.EXTEND_S, dest, dest, imm=i.type.bits, cost=0)


def _cycles_of(i: Binary) -> int:
    """Return what a shift or division takes.

    A compiler divides by a known number with shifts and products: by a power of two with one shift
    or mask (a signed number is first corrected by two instructions), by any other with the upper
    half of a product and a shift; a remainder takes a product and a difference more.
    """
    if i.op == "shr":
        return SCALAR_CYCLES["simple"]
    if not isinstance(i.b, Constant) or i.b.value == 0:
        return SCALAR_CYCLES["integer_divide"]
    size, correction = abs(int(i.b.value)), 2 * i.type.is_signed
    if size & (size - 1) == 0:
        return SCALAR_CYCLES["simple"] + correction
    return SCALAR_CYCLES["known_divide"] + correction + 2 * (i.op == "rem")


def _wrapping(body: Body, name: str, kind: Scalar, *, dest: int, a: int, b: int) -> None:
    suffix = _INTEGER_SUFFIX.get((kind.bits, kind.is_signed))
    if suffix is not None:
        body.code.emit(Op[f"{name}_{suffix}"], dest, a, b)
        return
    body.code.emit(Op[f"{name}_I64"], dest, a, b)
    body.code.emit(_extension(kind), dest, dest, imm=kind.bits, cost=0)


def _extension(kind: Scalar) -> Op:
    return Op.EXTEND_S if kind.is_signed else Op.EXTEND_U


def _compare(body: Body, op: str, kind: Scalar, *, dest: int, a: int, b: int) -> None:
    """Emit a comparison whose result is 0 or 1."""
    if op in ("gt", "ge"):
        op, a, b = {"gt": "lt", "ge": "le"}[op], b, a
    if kind.is_float:
        body.code.emit(Op[f"F{op.upper()}_F{kind.bits}"], dest, a, b)
    elif op in ("eq", "ne"):
        body.code.emit(Op[op.upper()], dest, a, b)
    else:
        body.code.emit(Op[f"{op.upper()}_{'S' if kind.is_signed else 'U'}"], dest, a, b)


def convert(body: Body, i: Convert) -> None:
    """Lower `@as` and `@bitcast`."""
    dest, source = body.slot(i.dest), body.operand(i.source)
    before, after = i.from_type, i.to_type
    if i.bitwise:
        _reinterpret(body, after, dest, source)
    elif after.kind == "bool":
        _to_bool(body, before, dest, source)
    elif before.is_float:
        _from_float(body, before, after, dest, source)
    elif after.is_float:
        sign = "S" if before.is_signed else "U"
        body.code.emit(Op[f"{sign}_TO_F{after.bits}"], dest, source)
    else:
        _reinterpret(body, after, dest, source)


def _reinterpret(body: Body, after: Scalar, dest: int, source: int) -> None:
    if after.bits >= 64:
        body.code.emit(Op.MOV, dest, source)
        return
    # Renaming a register costs the machine nothing.
    body.code.emit(_extension(after), dest, source, imm=after.bits, cost=0)


def _to_bool(body: Body, before: Scalar, dest: int, source: int) -> None:
    if before.is_float:
        body.code.emit(Op[f"F{before.bits}_TO_BOOL"], dest, source)
    else:
        body.code.emit(Op.NE, dest, source, body.frame.constant(0))


def _from_float(body: Body, before: Scalar, after: Scalar, dest: int, source: int) -> None:
    if not after.is_float:
        sign = "S" if after.is_signed else "U"
        body.code.emit(Op[f"F{before.bits}_TO_{sign}"], dest, source, imm=after.bits)
    elif before.bits == after.bits:
        body.code.emit(Op.MOV, dest, source)
    else:
        body.code.emit(Op[f"F{before.bits}_TO_F{after.bits}"], dest, source)


def load(body: Body, i: Load) -> None:
    """Lower a read of memory."""
    base, offset = body.address(i.address)
    kind = body.type_of(i.dest)
    dest = body.slot(i.dest)
    body.code.emit(load_op(kind), dest, base, imm=offset + i.offset)
    _extend_loaded(body, kind, dest)


def _extend_loaded(body: Body, kind: MachineType, dest: int) -> None:
    if isinstance(kind, Scalar) and kind.kind in ("int", "uint") and kind.bits not in (16, 32, 64):
        # The host and DSD operations write whole words, of which the type may have fewer bits.
        body.code.emit(_extension(kind), dest, dest, imm=kind.bits, cost=0)


def load_element(body: Body, i: LoadElement) -> None:
    """Lower a read of an element of an array."""
    base, offset = body.address(i.address)
    kind, dest = body.type_of(i.dest), body.slot(i.dest)
    op = Op[f"INDEX_{load_op(kind).name}"]
    body.code.emit(op, dest, base, body.operand(i.index), imm=offset + i.offset)
    _extend_loaded(body, kind, dest)


def store_element(body: Body, i: StoreElement) -> None:
    """Lower a write of an element of an array."""
    base, offset = body.address(i.address)
    op = Op[f"INDEX_STORE_{8 * i.type.num_bytes}"]
    body.code.emit(op, body.operand(i.source), base, body.operand(i.index), imm=offset + i.offset)


def load_op(kind: MachineType) -> Op:
    """Return the instruction that reads a value of a type from memory."""
    if not isinstance(kind, Scalar) or kind.num_bytes == 8:
        return Op.LOAD_64
    return Op[f"LOAD_{'I' if kind.is_signed else 'U'}{8 * kind.num_bytes}"]


def store(body: Body, i: Store) -> None:
    """Lower a write to memory."""
    base, offset = body.address(i.address)
    width = 8 * i.type.num_bytes if isinstance(i.type, Scalar) else 64
    body.code.emit(Op[f"STORE_{width}"], body.operand(i.source), base, imm=offset + i.offset)


def copy(body: Body, i: Copy) -> None:
    """Lower a copy of memory; the machine moves 32 bits a cycle."""
    cost = max(1, i.num_bytes // 4)
    body.code.emit(Op.COPY, body.operand(i.to), body.operand(i.source), imm=i.num_bytes, cost=cost)


def check_index(body: Body, i: CheckIndex) -> None:
    """Lower the check of an index, where programs are checked."""
    if not body.context.is_checked:
        return
    here = body.code.emit(Op.CHECK_INDEX, body.operand(i.index), imm=i.count, cost=0)
    body.context.arrays[here] = i.array
