"""Arithmetic on a PE against numpy, bit for bit, and against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from appliance.csl.program import (
    Address,
    Binary,
    Convert,
    Copy,
    DescriptorConstant,
    DsdOperation,
    Instruction,
    MemoryDescriptor,
    Move,
    OperationSettings,
    Register,
    Scalar,
    Store,
    Unary,
)
from appliance.fabric.commands import CopyIn, CopyOut, Launch, Region
from appliance.fabric.floats import FORMATS, decode_float, encode_float, round_to_format
from appliance.fabric.host_interface import Simulator
from tests.support.fabric_programs import (
    AT,
    F16,
    F32,
    UNBLOCK,
    ClassBuilder,
    number,
    program,
    straight,
)

ONE = Region(0, 0, 1, 1)
INTEGERS = [Scalar(kind, bits) for kind in ("int", "uint") for bits in (8, 16, 32, 64, 5, 24)]


def evaluate(
    registers: tuple[Scalar, ...], code: tuple[Instruction, ...], fp16_format: str = "f16"
) -> list[int]:
    """Run straight code; return the bits of every register."""
    builder = ClassBuilder()
    address = builder.array("out", Scalar("uint", 64), len(registers))
    stores = tuple(
        Store(Address(address + 8 * n, "out"), 0, Register(n), kind, AT)
        for n, kind in enumerate(registers)
    )
    builder.function(straight("f", registers, (*code, *stores, UNBLOCK)), exported=True)
    simulator = Simulator(program((builder.build(),), fp16_format=fp16_format))
    simulator.submit(Launch("f"))
    raw = simulator.wait(simulator.submit(CopyOut("out", ONE, 2 * len(registers))))
    assert raw is not None
    words = raw.reshape(-1, 2)
    return [int(low) | int(high) << 32 for low, high in words]


def wrap(value: int, kind: Scalar) -> int:
    """A value as an integer type holds it."""
    low = value & ((1 << kind.bits) - 1)
    return low - (1 << kind.bits) if kind.is_signed and low >> (kind.bits - 1) else low


def pattern(value: int, kind: Scalar) -> int:
    """The bits of an integer as memory holds them."""
    return value & ((1 << (8 * kind.num_bytes)) - 1)


def integer_result(op: str, a: int, b: int, kind: Scalar) -> int:
    """What an operation gives, from its definition."""
    match op:
        case "div":
            return wrap(int(Fraction(a, b)), kind)
        case "rem":
            return wrap(a - b * int(Fraction(a, b)), kind)
        case "shl":
            return wrap(a << min(b, 64), kind)
        case "shr":
            return wrap(a >> min(b, 64), kind)
    plain = {"add": a + b, "sub": a - b, "mul": a * b, "and": a & b, "or": a | b, "xor": a ^ b}
    return wrap(plain[op], kind)


def integers_of(kind: Scalar) -> st.SearchStrategy[int]:
    low = -(1 << (kind.bits - 1)) if kind.is_signed else 0
    high = (1 << (kind.bits - int(kind.is_signed))) - 1
    edges = st.sampled_from([low, high, 0, 1, high - 1, low + 1])
    return st.one_of(st.integers(low, high), edges)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_integer_expressions_wrap_as_their_types_say(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(INTEGERS))
    values = [data.draw(integers_of(kind)) for _ in range(3)]
    code: list[Instruction] = [Move(Register(n), number(kind, v), AT) for n, v in enumerate(values)]
    names = "add sub mul and or xor div rem shl shr"
    for _ in range(data.draw(st.integers(1, 12))):
        op = data.draw(st.sampled_from(names.split()))
        a, b = (data.draw(st.integers(0, len(values) - 1)) for _ in range(2))
        if op in ("div", "rem") and values[b] == 0:
            continue
        count = data.draw(st.integers(0, kind.bits + 3))
        right = number(Scalar("uint", 16), count) if op in ("shl", "shr") else Register(b)
        operand = count if op in ("shl", "shr") else values[b]
        code.append(Binary(Register(len(values)), op, kind, Register(a), right, AT))
        values.append(integer_result(op, values[a], operand, kind))
    found = evaluate((kind,) * len(values), tuple(code))
    mask = (1 << (8 * kind.num_bytes)) - 1
    assert [bits & mask for bits in found] == [pattern(value, kind) for value in values]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_f32_expressions_agree_with_numpy_bit_for_bit(data: st.DataObject) -> None:
    floats = st.floats(width=32)
    check_float_expression(data, F32, np.float32, floats)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_f16_expressions_agree_with_numpy_bit_for_bit(data: st.DataObject) -> None:
    check_float_expression(data, F16, np.float16, st.floats(width=16))


def check_float_expression(
    data: st.DataObject,
    kind: Scalar,
    dtype: type[np.floating],
    floats: st.SearchStrategy[float],
) -> None:
    values = [dtype(data.draw(floats)) for _ in range(3)]
    code: list[Instruction] = [
        Move(Register(n), number(kind, float(v)), AT) for n, v in enumerate(values)
    ]
    with np.errstate(all="ignore"):
        for _ in range(data.draw(st.integers(1, 10))):
            op = data.draw(st.sampled_from(["add", "sub", "mul", "div", "neg"]))
            a, b = (data.draw(st.integers(0, len(values) - 1)) for _ in range(2))
            dest = Register(len(values))
            if op == "neg":
                code.append(Unary(dest, "neg", kind, Register(a), AT))
                values.append(dtype(-values[a]))
                continue
            code.append(Binary(dest, op, kind, Register(a), Register(b), AT))
            x, y = values[a], values[b]
            results = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y}
            results |= {"mul": lambda x, y: x * y, "div": lambda x, y: x / y}
            values.append(dtype(results[op](x, y)))
    found = evaluate((kind,) * len(values), tuple(code))
    same_floats(np.array(values, dtype=dtype), np.array(found, dtype=np.uint64), dtype)


def same_floats(
    wanted: NDArray[np.floating], found: NDArray[np.uint64], dtype: type[np.floating]
) -> None:
    """Bits are equal; any NaN equals any other."""
    width = np.uint16 if dtype is np.float16 else np.uint32
    actual = found.astype(width).view(dtype)
    nan = np.isnan(wanted)
    assert (np.isnan(actual) == nan).all()
    assert (actual.view(width)[~nan] == wanted.view(width)[~nan]).all()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_conversions_between_numbers(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(INTEGERS))
    value = data.draw(integers_of(kind))
    real = data.draw(st.floats(width=32))
    narrow = data.draw(st.sampled_from(INTEGERS))
    code = (
        Convert(Register(0), number(kind, value), kind, F32, False, AT),
        Convert(Register(1), number(kind, value), kind, F16, False, AT),
        Convert(Register(2), number(kind, value), kind, narrow, False, AT),
        Convert(Register(3), number(F32, real), F32, narrow, False, AT),
        Convert(Register(4), number(F32, real), F32, F16, False, AT),
        Convert(Register(5), Register(4), F16, F32, False, AT),
    )
    found = evaluate((F32, F16, narrow, narrow, F16, F32), code)
    assert found[0] == round_to_format(Fraction(value), FORMATS["f32"], negative=value < 0)
    assert found[1] == round_to_format(Fraction(value), FORMATS["f16"], negative=value < 0)
    mask = (1 << (8 * narrow.num_bytes)) - 1
    assert found[2] & mask == pattern(wrap(value, narrow), narrow)
    assert found[3] & mask == pattern(saturated(real, narrow), narrow)
    with np.errstate(all="ignore"):
        half = np.float16(np.float32(real))
    same_floats(np.array([half]), np.array([found[4]], np.uint64), np.float16)
    same_floats(np.array([np.float32(half)]), np.array([found[5]], np.uint64), np.float32)


def saturated(value: float, kind: Scalar) -> int:
    """Truncation toward zero, to the nearest value that the type holds; NaN gives 0."""
    if np.isnan(value):
        return 0
    low = -(1 << (kind.bits - 1)) if kind.is_signed else 0
    high = (1 << (kind.bits - int(kind.is_signed))) - 1
    if np.isinf(value):
        return high if value > 0 else low
    return max(low, min(high, int(value)))


def run_vector(
    op: str,
    sources: list[tuple[NDArray[np.generic], int]],
    dest_bytes: int,
    *,
    factor: object = None,
    fp16_format: str = "f16",
) -> NDArray[np.uint64]:
    """Run a DSD operation over arrays; return the bits of its results."""
    count = len(sources[0][0])
    builder = ClassBuilder()
    widths = {2: Scalar("uint", 16), 4: Scalar("uint", 32)}
    out = builder.array("out", widths[dest_bytes], count)
    operands: list[object] = [descriptor(out, dest_bytes, count)]
    for place, (values, width) in enumerate(sources):
        address = builder.array(f"in{place}", widths[width], count, values.tobytes())
        operands.append(descriptor(address, width, count))
    if factor is not None:
        operands.append(factor)
    operation = DsdOperation(None, op, tuple(operands), OperationSettings(), AT)  # type: ignore[arg-type]
    builder.function(straight("f", (), (operation, UNBLOCK)), exported=True)
    simulator = Simulator(program((builder.build(),), fp16_format=fp16_format))
    simulator.submit(Launch("f"))
    bits = 8 * dest_bytes
    result = simulator.wait(simulator.submit(CopyOut("out", ONE, count, bits)))
    assert result is not None
    return result.reshape(-1).astype(np.uint64)


def descriptor(address: int, width: int, count: int, stride: int = 1) -> DescriptorConstant:
    """A one-dimensional DSD."""
    return DescriptorConstant(MemoryDescriptor(address, width, 0, (count,), (stride,)))


def random_floats(dtype: type[np.floating], count: int, seed: int) -> NDArray[np.floating]:
    """Random bits, among them infinities, NaN, zeros and subnormal numbers."""
    width = np.uint16 if dtype is np.float16 else np.uint32
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, np.iinfo(width).max, count, dtype=width, endpoint=True)
    bits[:4] = [0, 1, np.iinfo(width).max, np.iinfo(width).max // 2 + 1]
    return bits.view(dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("letter", ["h", "s"])
@pytest.mark.parametrize("name", ["fadd", "fsub", "fmul", "fmov", "fneg", "fabs"])
def test_float_vector_operations_agree_with_numpy(name: str, letter: str) -> None:
    dtype: type[np.floating] = np.float16 if letter == "h" else np.float32
    size = dtype().itemsize
    a, b = (random_floats(dtype, 5000, seed) for seed in (1, 2))
    functions = {"fadd": a + b, "fsub": a - b, "fmul": a * b, "fmov": a, "fneg": -a}
    with np.errstate(all="ignore"):
        wanted = functions[name] if name in functions else np.abs(a)
    two = name in ("fadd", "fsub", "fmul")
    sources: list[tuple[NDArray[np.generic], int]] = [(a, size), (b, size)]
    found = run_vector(name + letter, sources[: 2 if two else 1], size)
    same_floats(wanted.astype(dtype), found, dtype)


@pytest.mark.parametrize("fp16_format", ["f16", "bf16", "cb16"])
@pytest.mark.parametrize("name", ["faddh", "fmulh", "fmach"])
def test_sixteen_bit_formats_round_once(name: str, fp16_format: str) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.integers(0, 1 << 16, 800, dtype=np.uint16) for _ in range(2))
    b[:200] = a[:200] ^ 0x8000  # cancellation
    x = encode_float(1.001, 16, fp16_format)
    layout = FORMATS[fp16_format]
    factor = number(F16, decode_float(x, fp16_format)) if name == "fmach" else None
    found = run_vector(name, [(a, 2), (b, 2)], 2, factor=factor, fp16_format=fp16_format)
    for n, (left, right) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        p, q = decode_float(left, fp16_format), decode_float(right, fp16_format)
        if not (np.isfinite(p) and np.isfinite(q)):
            continue
        u, v = Fraction(p), Fraction(q)
        factor_value = Fraction(decode_float(x, fp16_format))
        exact = {"faddh": u + v, "fmulh": u * v, "fmach": u + v * factor_value}[name]
        if exact != 0:
            wanted = round_to_format(exact, layout, negative=exact < 0)
            assert int(found[n]) == wanted, (n, p, q)


def test_fused_f32_rounds_once() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=2000).astype(np.float32) for _ in range(2))
    x = float(np.float32(0.7654321))
    a[:1000] = (-b[:1000].astype(np.float64) * x).astype(np.float32)
    found = run_vector("fmacs", [(a, 4), (b, 4)], 4, factor=number(F32, x))
    for n in range(2000):
        exact = Fraction(float(a[n])) + Fraction(float(b[n])) * Fraction(x)
        if exact != 0:
            assert int(found[n]) == round_to_format(exact, FORMATS["f32"], negative=exact < 0)


def test_integer_vector_operations() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 1 << 16, 500, dtype=np.uint16) for _ in range(2))
    small = (b % 18).astype(np.uint16)
    wide_a, wide_s = a.astype(np.int64), small.astype(np.int64)
    cases = {
        "add16": (b, a + b),
        "sub16": (b, a - b),
        "and16": (b, a & b),
        "or16": (b, a | b),
        "xor16": (b, a ^ b),
        "sll16": (small, wide_a << wide_s),
        "slr16": (small, wide_a >> wide_s),
        "sar16": (small, a.view(np.int16).astype(np.int64) >> np.minimum(wide_s, 15)),
    }
    for name, (second, wanted) in cases.items():
        found = run_vector(name, [(a, 2), (second, 2)], 2)
        assert (found == (wanted.astype(np.int64) & 0xFFFF)).all(), name
    counts = {"popcnt": lambda v: v.bit_count(), "clz": lambda v: 16 - v.bit_length()}
    counts["ctz"] = lambda v: (v & -v).bit_length() - 1 if v else 16
    for name, count in counts.items():
        found = run_vector(name, [(a, 2)], 2)
        assert found.tolist() == [count(v) for v in a.tolist()], name


def test_strides_overlaps_and_copies() -> None:
    builder = ClassBuilder()
    address = builder.array("v", F32, 8, np.arange(8, dtype=np.float32).tobytes())
    other = builder.array("w", F32, 8)
    running = DsdOperation(  # v[i + 1] = v[i] + v[i + 1]: each element sees the one before
        None,
        "fadds",
        (
            descriptor(address + 4, 4, 7),
            descriptor(address, 4, 7),
            descriptor(address + 4, 4, 7),
        ),
        OperationSettings(),
        AT,
    )
    backwards = DsdOperation(
        None,
        "fmovs",
        (descriptor(other + 28, 4, 8, -1), descriptor(address, 4, 8)),
        OperationSettings(),
        AT,
    )
    copy = Copy(Address(address, "v"), Address(other, "w"), 32, AT)
    body = (running, backwards, copy, UNBLOCK)
    builder.function(straight("f", (), body), exported=True)
    simulator = Simulator(program((builder.build(),)))
    simulator.submit(Launch("f"))
    result = simulator.wait(simulator.submit(CopyOut("v", ONE, 8)))
    assert result is not None
    sums = np.cumsum(np.arange(8, dtype=np.float32))
    assert (result.reshape(-1).view(np.float32) == sums[::-1]).all()


def test_a_copy_of_sixteen_bit_data_uses_the_low_halves() -> None:
    builder = ClassBuilder()
    builder.array("v", Scalar("uint", 16), 4)
    builder.function(straight("f", (), (UNBLOCK,)), exported=True)
    simulator = Simulator(program((builder.build(),)))
    data = np.array([[[0x10001, 2, 3, 0xFFFFFFFF]]], dtype=np.uint32)
    simulator.submit(CopyIn("v", ONE, data, 16))
    result = simulator.wait(simulator.submit(CopyOut("v", ONE, 4, 16)))
    assert result is not None
    assert result.reshape(-1).tolist() == [1, 2, 3, 0xFFFF]


def test_dsds_of_several_dimensions_run_their_last_index_fastest() -> None:
    builder = ClassBuilder()
    source = builder.array("in", F32, 24, np.arange(24, dtype=np.float32).tobytes())
    out = builder.array("out", F32, 12)
    picked = MemoryDescriptor(source, 4, 4, (2, 3, 2), (12, -2, 5))
    operation = DsdOperation(
        None,
        "fmovs",
        (descriptor(out, 4, 12), DescriptorConstant(picked)),
        OperationSettings(),
        AT,
    )
    shifted = MemoryDescriptor(source, 4, 5, (2, 3, 2), (12, -2, 5))
    repeated = DsdOperation(
        None,
        "fadds",
        (descriptor(out, 4, 12), descriptor(out, 4, 12), DescriptorConstant(shifted)),
        OperationSettings(),
        AT,
    )
    builder.function(straight("f", (), (operation, repeated, UNBLOCK)), exported=True)
    simulator = Simulator(program((builder.build(),)))
    simulator.submit(Launch("f"))
    result = simulator.wait(simulator.submit(CopyOut("out", ONE, 12)))
    assert result is not None
    order = [12 * i - 2 * j + 5 * k for i in range(2) for j in range(3) for k in range(2)]
    wanted = [float((4 + at) + (5 + at)) for at in order]
    assert result.reshape(-1).view(np.float32).tolist() == wanted


def test_a_wide_operation_goes_through_narrow_elements_pair_by_pair() -> None:
    builder = ClassBuilder()
    values = np.arange(12, dtype=np.float16)
    source = builder.array("in", F16, 12, values.tobytes())
    out = builder.array("out", F16, 12)
    narrow = descriptor(source, 2, 6)
    backwards = DescriptorConstant(MemoryDescriptor(out, 2, 10, (6,), (-1,)))
    operation = DsdOperation(None, "fmovs", (backwards, narrow), OperationSettings(), AT)
    builder.function(straight("f", (), (operation, UNBLOCK)), exported=True)
    simulator = Simulator(program((builder.build(),)))
    simulator.submit(Launch("f"))
    result = simulator.wait(simulator.submit(CopyOut("out", ONE, 12, 16)))
    assert result is not None
    found = result.reshape(-1).astype(np.uint16).view(np.float16)
    assert found.tolist() == values.reshape(6, 2)[::-1].reshape(-1).tolist()
