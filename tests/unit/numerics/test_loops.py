"""Elementwise nodes run as one loop give the bits that they give one by one."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.core.ir.tensors import Constant, DType, TensorType
from appliance.numerics.groups import uses_of
from appliance.numerics.loops import machine_code
from appliance.numerics.loops.regions import find_regions
from appliance.numerics.programs.grouping import group_nodes, single_group
from appliance.numerics.programs.program import Program
from tests.support.plans import node

SCALAR = TensorType((), DType.F32)


def vector(size, dtype=DType.F32):
    return TensorType((size,), dtype)


def number(result, value, type_):
    data = np.array(value, type_.dtype.container).tobytes()
    return node("Const", "", result, type_, value=Constant(type_, data))


def one_by_one(nodes, values):
    """Run nodes with their own kernels."""
    with np.errstate(invalid="ignore"):
        return _one_by_one(nodes, values)


def _one_by_one(nodes, values):
    table = dict(values)
    types = {name: type_of(value) for name, value in values.items()}
    for each in nodes:
        types.update(zip(each.results, each.types, strict=True))
        operands = [table[name] for name in each.operands]
        if each.op == "Sqrt":  # torch's is MKL's, which is not always correctly rounded
            found = torch.from_numpy(np.asarray(np.sqrt(operands[0].numpy())))
        else:
            found = single_group(each, types).kernel.call(*operands)
        table[each.results[0]] = found
    return table


def type_of(value):
    dtypes = {torch.float32: DType.F32, torch.bool: DType.I1, torch.int64: DType.I64}
    return TensorType(tuple(value.shape), dtypes[value.dtype])


def assert_same_bits(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected.contiguous().numpy())


def adamw(size):
    """The update of one parameter, as the client traces it."""
    full = vector(size)
    return [
        number("b1", 0.9, full), number("c1", 0.1, full), number("b2", 0.95, full),
        number("c2", 0.05, full), number("eps", 1e-8, full), number("decay", 0.1, full),
        number("rate", 3e-4, full), number("one", 1.0, SCALAR), number("beta", 0.9, SCALAR),
        node("Mul", "m b1", "m1", full), node("Mul", "g c1", "m2", full),
        node("Add", "m1 m2", "new_m", full),
        node("Mul", "v b2", "v1", full), node("Mul", "g g", "gg", full),
        node("Mul", "gg c2", "v2", full), node("Add", "v1 v2", "new_v", full),
        node("Sub", "one power", "bias", SCALAR), node("Mul", "power beta", "new_power", SCALAR),
        node("Sqrt", "new_v", "root", full), node("Add", "root eps", "denominator", full),
        node("Div", "new_m denominator", "step", full),
        node("BroadcastInDim", "bias", "bias_b", full, broadcast_dimensions=()),
        node("Mul", "step bias_b", "corrected", full),
        node("Mul", "w decay", "shrink", full), node("Add", "corrected shrink", "sum", full),
        node("Mul", "sum rate", "change", full), node("Sub", "w change", "new_w", full),
    ]  # fmt: skip


def adamw_values(size):
    torch.manual_seed(size)
    values = {name: torch.randn(size) for name in "gmw"}
    return values | {"v": torch.rand(size), "power": torch.tensor(0.9)}


NEW = ("new_m", "new_v", "new_w", "new_power")


@pytest.mark.parametrize("size", [1, 3, 15, 16, 17, 1000])
def test_an_optimizer_is_one_loop_and_gives_the_same_bits_in_place(size):
    nodes, values = adamw(size), adamw_values(size)
    expected = one_by_one(nodes, values)
    types = {name: type_of(value) for name, value in values.items()}
    program = Program(nodes, types=types, live_out=(), written=NEW)
    assert len(program._groups) == (2 if size > 1 else 1)
    targets = {f"new_{name}": values[name] for name in "mvw"}
    assert all(program.may_overwrite(f"new_{name}", name) for name in "mvw")
    targets["new_power"] = torch.empty(())
    table = dict(values)
    program.run(table, step=0, out=targets)
    assert not table
    for name, target in targets.items():
        assert_same_bits(target, expected[name])


def test_a_loop_writes_what_lives_out_and_frees_the_rest():
    nodes, values = adamw(33), adamw_values(33)
    types = {name: type_of(value) for name, value in values.items()}
    expected = one_by_one(nodes, values)
    program = Program(nodes, types=types, live_out={"new_w", "w"})
    table = dict(values)
    program.run(table, step=0)
    assert table.keys() == {"new_w", "w"}
    assert_same_bits(table["new_w"], expected["new_w"])
    assert table["w"] is values["w"]


def test_known_values_go_into_the_code_and_leave_the_table():
    full = vector(40)
    nodes = [node("Mul", "x k", "y", full), node("Add", "y k", "z", full)]
    known = {"k": torch.tensor(3.0).expand(40)}
    program = Program(nodes, types={"x": full, "k": full}, live_out={"z"}, known=known)
    table = {"x": torch.arange(40.0), **known}
    program.run(table, step=0)
    assert table.keys() == {"z"}
    assert_same_bits(table["z"], torch.arange(40.0) * 3 + 3)


def test_a_loop_reads_operands_that_are_not_contiguous():
    square = TensorType((6, 6), DType.F32)
    nodes = [node("Mul", "x x", "y", square), node("Sub", "y x", "z", square)]
    program = Program(nodes, types={"x": square}, live_out={"z"})
    x = torch.randn(6, 6).T
    table = {"x": x}
    program.run(table, step=0)
    assert_same_bits(table["z"], x * x - x)


def test_what_is_read_again_behind_another_operation_is_no_part_of_the_loop():
    full, flat = TensorType((4, 4), DType.F32), vector(4)
    nodes = [
        node("Mul", "x x", "a", full),
        node("Abs", "a", "b", full),
        node("Reduce", "b", "r", flat, dimensions=(1,), keep_dims=(), reduce_kind="ADD"),
        node("BroadcastInDim", "r", "rb", full, broadcast_dimensions=(0,)),
        node("Div", "b rb", "c", full),
        node("Add", "c a", "d", full),
    ]
    types = {"x": full} | {n.results[0]: n.types[0] for n in nodes}
    uses = uses_of(nodes, {"d"})
    assert find_regions(nodes, types, uses) == [(0, 1), (4, 5)]
    program = Program(nodes, types={"x": full}, live_out={"d"})
    x = torch.randn(4, 4)
    table = {"x": x}
    program.run(table, step=0)
    assert_same_bits(table["d"], one_by_one(nodes, {"x": x})["d"])


def test_a_mask_of_what_is_given_waits_for_the_loop_that_reads_it():
    full, flat, truth = TensorType((4, 4), DType.F32), vector(4), TensorType((4, 4), DType.I1)
    nodes = [
        node("Compare", "x zero", "m", truth, comparison_direction="GT"),
        node("Reduce", "x", "r", flat, dimensions=(1,), keep_dims=(), reduce_kind="ADD"),
        node("BroadcastInDim", "r", "g", full, broadcast_dimensions=(0,)),
        node("Select", "m g zero", "y", full),
    ]
    types = {"x": full, "zero": SCALAR} | {n.results[0]: n.types[0] for n in nodes}
    assert find_regions(nodes, types, uses_of(nodes, {"y"})) == [(0, 3)]
    # A mask that is kept is made where it was.
    assert find_regions(nodes, types, uses_of(nodes, {"m", "y"})) == []
    program = Program(nodes, types={"x": full, "zero": SCALAR}, live_out={"y"})
    given = {"x": torch.randn(4, 4), "zero": torch.tensor(0.0)}
    table = dict(given)
    program.run(table, step=0)
    assert_same_bits(table["y"], one_by_one(nodes, given)["y"])


def test_a_single_element_for_several_loops_is_computed_once():
    small, large = vector(5), vector(50)
    nodes = [
        node("Mul", "s s", "q", SCALAR),
        node("Sqrt", "q", "r", SCALAR),
        node("BroadcastInDim", "r", "rs", small, broadcast_dimensions=()),
        node("BroadcastInDim", "r", "rl", large, broadcast_dimensions=()),
        node("Mul", "x rs", "xa", small),
        node("Add", "xa x", "xb", small),
        node("Mul", "y rl", "ya", large),
        node("Add", "ya y", "yb", large),
    ]
    values = {"s": torch.tensor(1.7), "x": torch.randn(5), "y": torch.randn(50)}
    types = {name: type_of(value) for name, value in values.items()}
    groups = group_nodes(nodes, types | {n.results[0]: n.types[0] for n in nodes}, {}, {"xb", "yb"})
    assert [len(group.nodes) for group in groups] == [2, 3, 3]
    expected = one_by_one(nodes, values)
    table = dict(values)
    Program(nodes, types=types, live_out={"xb", "yb"}).run(table, step=0)
    for name in ("xb", "yb"):
        assert_same_bits(table[name], expected[name])


FLOAT_UNARY = ("Abs", "Ceil", "Floor", "Reciprocal", "Round", "Rsqrt")
BINARY = (
    *((op, DType.F32) for op in ("Add", "Div", "Mul", "Sub")),
    *((op, DType.I64) for op in ("Add", "Mul", "Sub", "And", "Or", "Xor")),
    *((op, DType.I1) for op in ("And", "Or", "Xor")),
)
DIRECTIONS = ("EQ", "NE", "GT", "GE", "LT", "LE")
SMALL = [2.0**-31, -(2.0**-40) * 1.7, 6e-8, 5e-8, 2.0**-24]
LARGE = [65504.0, 65520.0, -65519.9, 2.0**32, 4.2949e9, 3.4e38]
SPECIAL = [
    *SMALL,
    *LARGE,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.5,
    -1.5,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e-42,
]


@st.composite
def programs(draw):
    """Draw nodes over floats, truth values and integers of one size."""
    size = draw(st.sampled_from([1, 7, 16, 35]))
    types = {
        "x": vector(size), "y": vector(size), "s": SCALAR, "t": vector(size, DType.I1),
        "i": vector(size, DType.I64), "j": vector(size, DType.I64),
    }  # fmt: skip
    nodes = []
    for index in range(draw(st.integers(2, 12))):
        made = draw_node(draw, types, f"n{index}", size)
        nodes.append(made)
        types[made.results[0]] = made.types[0]
    kept = draw(st.sets(st.sampled_from([n.results[0] for n in nodes])))
    return size, nodes, kept | {nodes[-1].results[0]}


def draw_node(draw, types, result, size):
    def pick(dtype):
        names = [n for n, t in types.items() if t == vector(size, dtype)]
        return draw(st.sampled_from(sorted(names)))

    def typed(dtype):
        return vector(size, dtype)

    kind = draw(st.sampled_from(["unary", "not", "binary", "compare", "select", "cast", "spread"]))
    floats, truths = typed(DType.F32), typed(DType.I1)
    match kind:
        case "unary":
            return node(draw(st.sampled_from(FLOAT_UNARY)), pick(DType.F32), result, floats)
        case "not":
            return node("Not", pick(DType.I1), result, truths)
        case "binary":
            op, dtype = draw(st.sampled_from(BINARY))
            return node(op, f"{pick(dtype)} {pick(dtype)}", result, typed(dtype))
        case "compare":
            dtype = draw(st.sampled_from([DType.F32, DType.I64]))
            direction = draw(st.sampled_from(DIRECTIONS))
            operands = f"{pick(dtype)} {pick(dtype)}"
            return node("Compare", operands, result, truths, comparison_direction=direction)
        case "select":
            dtype = draw(st.sampled_from([DType.F32, DType.I64, DType.I1]))
            operands = f"{pick(DType.I1)} {pick(dtype)} {pick(dtype)}"
            return node("Select", operands, result, typed(dtype))
        case "cast":
            source, target = draw(st.sampled_from([
                (DType.I1, DType.F32), (DType.I1, DType.I64), (DType.I64, DType.F32),
                (DType.F32, DType.I1), (DType.I64, DType.I1), (DType.F32, DType.F32),
            ]))  # fmt: skip
            return node("Cast", pick(source), result, typed(target))
        case _:
            return node("BroadcastInDim", "s", result, floats, broadcast_dimensions=())


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs(), st.randoms(use_true_random=False))
def test_any_loop_gives_the_bits_of_its_nodes(drawn, chance):
    size, nodes, kept = drawn

    def floats(count):
        chosen = [chance.choice(SPECIAL + [chance.uniform(-9, 9)] * 8) for _ in range(count)]
        return torch.tensor(chosen)

    values = {
        "x": floats(size), "y": floats(size), "s": floats(1)[0],
        "t": torch.tensor([chance.random() < 0.5 for _ in range(size)]),
        "i": torch.tensor([chance.randint(-99, 99) for _ in range(size)]),
        "j": torch.tensor([chance.randint(-99, 99) for _ in range(size)]),
    }  # fmt: skip
    types = {name: type_of(value) for name, value in values.items()}
    expected = one_by_one(nodes, values)
    table = dict(values)
    Program(nodes, types=types, live_out=kept).run(table, step=0)
    for name in kept:
        assert_same_bits(table[name], expected[name])


def exact_gelu(x):
    u = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return x / (1 + np.exp(-2 * u))


def exact_gelu_gradient(dy, x):
    s = 1 / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    slope = 2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
    return dy * (s + x * s * (1 - s) * slope)


EXACT = {
    "Exp": np.exp,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Gelu": exact_gelu,
    "GeluGrad": exact_gelu_gradient,
}


@pytest.mark.parametrize("op", sorted(EXACT))
def test_functions_agree_with_their_definition_in_double_precision(op):
    x = torch.cat([torch.linspace(-20, 20, 4001), torch.linspace(-1e-3, 1e-3, 101)])
    full = vector(len(x))
    operands, attributes = "x", {}
    values = {"x": x}
    if op.startswith("Gelu"):
        attributes["approximation"] = "TANH"
    if op == "GeluGrad":
        operands = "dy x"
        values["dy"] = torch.randn(len(x), generator=torch.Generator().manual_seed(0))
    nodes = [node(op, operands, "y", full, **attributes), node("Reshape", "y", "z", full)]
    if not op.startswith("Gelu"):  # not worth a loop of its own
        nodes.insert(1, node("Abs", "y", "positive", full))
    program = Program(nodes, types=dict.fromkeys(values, full), live_out={"y"})
    assert len(program._groups[0].nodes) > 1 or op.startswith("Gelu")
    table = dict(values)
    program.run(table, step=0)
    given = [values[name].double().numpy() for name in operands.split()]
    # u is rounded before the exponential makes an absolute error of it a relative one.
    relative = 1e-6 if op in ("Exp", "Sigmoid") else 5e-5
    np.testing.assert_allclose(table["y"].double().numpy(), EXACT[op](*given), relative, 2e-7)


@pytest.mark.parametrize("op", sorted(EXACT))
def test_functions_take_every_float(op):
    x = torch.tensor([0.0, -0.0, 88.8, 1e4, -1e4, 3e38, -3e38, torch.inf, torch.nan, -103.0, 1e-40])
    full = vector(len(x))
    values = {"x": x, "dy": torch.ones(len(x))}
    nodes = [
        node(op, "dy x" if op == "GeluGrad" else "x", "y", full, approximation="TANH"),
        node("Abs", "y", "z", full),
    ]
    expected = one_by_one(nodes, values)["y"]
    program = Program(nodes, types=dict.fromkeys(values, full), live_out={"y", "z"})
    program.run(values, step=0)
    # torch's own GELU is NaN for some large numbers.
    compared = torch.isfinite(x) & ~expected.isnan()
    np.testing.assert_allclose(values["y"][compared], expected[compared], 1e-6, 1e-38)
    assert values["y"][8].isnan()


@pytest.mark.parametrize("half", [DType.F16, DType.BF16, DType.CB16])
def test_a_loop_rounds_where_its_nodes_round(half):
    generator = np.random.default_rng(0)
    x = (generator.standard_normal(4000) * 2.0 ** generator.uniform(-45, 40, 4000)).astype("f4")
    x = torch.cat([torch.from_numpy(x), torch.tensor([*SPECIAL, *SMALL, *LARGE])])
    wide, narrow = vector(len(x)), vector(len(x), half)
    nodes = [
        node("Cast", "x", "a", narrow),
        node("Mul", "a a", "b", narrow),
        node("Add", "b a", "c", narrow),
        node("Cast", "c", "d", wide),
        node("Div", "d x", "e", wide),
        node("Cast", "e", "f", narrow),
    ]
    expected = one_by_one(nodes, {"x": x})
    program = Program(nodes, types={"x": wide}, live_out=set("abcdef"))
    assert len(program._groups) == 1
    table = {"x": x}
    program.run(table, step=0)
    for name in "abcdef":
        assert_same_bits(table[name], expected[name])


def test_more_scalars_than_a_function_takes_are_advanced_in_several_loops():
    count = 1_500
    nodes = []
    for index in range(count):
        nodes.append(node("Mul", f"a{index} b", f"m{index}", SCALAR))
        nodes.append(node("Add", f"m{index} b", f"n{index}", SCALAR))
    values = {f"a{index}": torch.tensor(float(index)) for index in range(count)}
    values["b"] = torch.tensor(0.5)
    types = dict.fromkeys(values, SCALAR)
    results = {f"n{index}" for index in range(count)}
    table = dict(values)
    Program(nodes, types=types, live_out=results).run(table, step=0)
    assert [float(table[f"n{index}"]) for index in range(count)] == [
        0.5 * index + 0.5 for index in range(count)
    ]


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("size", [1 << 15, (1 << 15) + 1, 100_003])
def test_a_loop_over_several_threads_gives_the_same_bits(three_threads, size):
    nodes, values = adamw(size), adamw_values(size)
    types = {name: type_of(value) for name, value in values.items()}
    expected = one_by_one(nodes, values)
    program = Program(nodes, types=types, live_out=(), written=NEW)
    targets = {f"new_{name}": values[name] for name in "mvw"}
    table = dict(values)
    program.run(table, step=0, out={**targets, "new_power": torch.empty(())})
    for name, target in targets.items():
        assert_same_bits(target, expected[name])


@pytest.fixture
def code_directory(tmp_path):
    machine_code.keep_machine_code(str(tmp_path))
    yield tmp_path
    machine_code.keep_machine_code(None)


def multiplied(factor):
    """Return what a process computes that has not compiled anything yet."""
    machine_code.compile_text.cache_clear()
    full = vector(40)
    nodes = [
        number("k", factor, full),
        node("Mul", "x k", "y", full),
        node("Add", "y x", "z", full),
    ]
    table = {"x": torch.ones(40)}
    Program(nodes, types={"x": full}, live_out={"z"}).run(table, step=0)
    return table["z"][39].item()


def test_machine_code_is_kept_for_other_processes_and_used_only_if_it_is_whole(code_directory):
    assert multiplied(2.0) == 3.0
    (kept,) = code_directory.glob("*.o")
    content, written = kept.read_bytes(), kept.stat().st_mtime_ns
    assert multiplied(2.0) == 3.0
    assert kept.stat().st_mtime_ns == written, "nothing was compiled"
    kept.write_bytes(content[:-100])
    assert multiplied(2.0) == 3.0
    assert kept.read_bytes() == content
    assert multiplied(4.0) == 5.0
    assert len(list(code_directory.glob("*"))) == 2


@pytest.mark.parametrize(("length", "is_spread"), [(32, False), (24, True), (1, True)])
def test_a_bias_is_repeated_by_the_loop_itself(length, is_spread):
    full, bias = TensorType((5, length), DType.F32), vector(length)
    nodes = [
        node("BroadcastInDim", "b", "wide", full, broadcast_dimensions=(1,)),
        node("Add", "x wide", "y", full),
        node("Mul", "y x", "z", full),
    ]
    program = Program(nodes, types={"x": full, "b": bias}, live_out={"z"})
    loop = next(group for group in program._groups if "z" in group.results)
    assert ("b" not in loop.operands) is (is_spread and length > 1)
    torch.manual_seed(1)
    table = {"x": torch.randn(5, length), "b": torch.randn(length)}
    expected = (table["x"] + table["b"]) * table["x"]
    program.run(table, step=0)
    assert_same_bits(table["z"], expected)
