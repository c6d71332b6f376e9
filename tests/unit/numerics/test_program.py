"""A program runs its nodes in order, frees what is not needed, and writes where it is told."""

import itertools

import numpy as np
import pytest
import torch

from appliance.core.errors import InternalError
from appliance.core.ir.graph import Direction, Frame, Location, Node
from appliance.core.ir.ops import SPECS
from appliance.core.ir.tensors import Constant, DType, TensorType
from appliance.numerics.kernels import supported_ops
from appliance.numerics.programs.pool import TensorPool
from appliance.numerics.programs.program import Program, compute_once
from appliance.numerics.reference import defined_ops

MATRIX = TensorType((4, 4), DType.F32)
VECTOR = TensorType((4,), DType.F32)
FLAT = TensorType((16,), DType.F32)


def node(op, operands, result, type_=MATRIX, location=None, **attributes):
    extra = {} if location is None else {"location": location}
    return Node(
        op=op,
        operands=tuple(operands.split()),
        results=(result,),
        types=(type_,),
        attributes=attributes,
        **extra,
    )


def constant(result, value, type_=MATRIX):
    data = np.float32(value).tobytes()
    return node("Const", "", result, type_, value=Constant(type_, data))


def matmul(operands, result, **attributes):
    return node("MatMul", operands, result, transpose_a=False, transpose_b=False, **attributes)


def tensors(**names):
    return {name: torch.randn(shape) for name, shape in names.items()}


def test_every_operation_of_the_table_has_a_kernel_and_a_definition():
    assert SPECS.keys() == supported_ops() == defined_ops()


WIDE, TALL = TensorType((4, 6), DType.F32), TensorType((6, 4), DType.F32)
INDICES = TensorType((4,), DType.I32)
MAKERS = {
    "loop": [node("Mul", "x y", "m", WIDE), node("Add", "m x", "r", WIDE)],
    "concatenation": [node("Concat", "h h", "r", WIDE, axis=0)],
    "gather": [node("Gather", "x i", "r", WIDE, axis=0)],
    "pad of a shard": [node("wsc.ShardPad", "h", "r", WIDE, axis=0, start=1, size=2)],
    "softmax": [node("Softmax", "x", "r", WIDE, axis=1)],
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_result_may_lie_transposed_in_the_callers_tensor(maker):
    nodes = MAKERS[maker]
    types = {"x": WIDE, "y": WIDE, "i": INDICES, "h": TensorType((2, 6), DType.F32)}
    given = tensors(x=(4, 6), y=(4, 6), h=(2, 6)) | {"i": torch.tensor([3, 0, 2, 2]).int()}
    plain = dict(given)
    Program(nodes, types=types, live_out={"r"}).run(plain, step=0)
    turned = [*nodes, node("Transpose", "r", "g", TALL, permutation=(1, 0))]
    slot = torch.zeros(6, 4)
    Program(turned, types=types, live_out=()).run(dict(given), step=0, out={"g": slot})
    torch.testing.assert_close(slot, plain["r"].T.contiguous(), rtol=0, atol=0)


def test_only_what_lives_out_stays_in_the_table():
    program = Program(
        [constant("two", 2.0), node("Mul", "x two", "y"), node("Add", "y w", "z")],
        types={"x": MATRIX, "w": MATRIX},
        live_out={"z", "w"},
    )
    values = tensors(x=(4, 4), w=(4, 4), bystander=(1,))
    expected = values["x"] * 2 + values["w"]
    program.run(values, step=0)
    assert values.keys() == {"z", "w", "bystander"}
    torch.testing.assert_close(values["z"], expected)


def test_a_result_that_nobody_reads_is_deleted():
    split = Node(
        op="Split",
        operands=("x",),
        results=("a", "b"),
        types=(TensorType((1, 4), DType.F32), TensorType((3, 4), DType.F32)),
        attributes={"axis": 0, "split_sizes": (1, 3)},
    )
    program = Program([split], types={"x": MATRIX}, live_out={"b"})
    values = tensors(x=(4, 4))
    program.run(values, step=0)
    assert values.keys() == {"b"}


def test_a_constant_may_live_out_and_the_program_runs_again():
    program = Program([constant("c", 3.0)], types={}, live_out={"c"})
    for _ in range(2):
        values = {}
        program.run(values, step=0)
        assert values["c"].shape == (4, 4)
        assert set(values["c"].flatten().tolist()) == {3.0}


@pytest.mark.parametrize("through", ["nothing", "reshape", "transpose", "unit axes"])
def test_a_result_is_computed_straight_into_the_callers_tensor(through):
    nodes = [matmul("x w", "p")]
    match through:
        case "nothing":
            name, type_ = "p", MATRIX
        case "reshape":
            name, type_ = "g", FLAT
            nodes.append(node("Reshape", "p", "g", FLAT))
        case "transpose":
            name, type_ = "g", MATRIX
            nodes.append(node("Transpose", "p", "g", permutation=(1, 0)))
        case _:
            name, type_ = "g", TensorType((1, 4, 4), DType.F32)
            nodes.append(node("BroadcastInDim", "p", "g", type_, broadcast_dimensions=(1, 2)))
    program = Program(nodes, types={"x": MATRIX, "w": MATRIX}, live_out=())
    values = tensors(x=(4, 4), w=(4, 4))
    product = values["x"] @ values["w"]
    expected = product.T if through == "transpose" else product.reshape(type_.shape)
    slot = torch.zeros(type_.shape)
    allocated = count_allocations(lambda: program.run(values, step=0, out={name: slot}))
    torch.testing.assert_close(slot, expected.contiguous())
    assert not values
    assert allocated == 0


def count_allocations(action):
    """Return how many new tensors of the matrix's size an action makes."""
    with torch.profiler.profile(profile_memory=True) as profile:
        action()
    return sum(event.self_cpu_memory_usage >= 64 for event in profile.key_averages())


def test_a_value_that_lives_out_as_well_keeps_memory_of_its_own():
    program = Program(
        [matmul("x w", "p"), node("Transpose", "p", "view", permutation=(1, 0))],
        types={"x": MATRIX, "w": MATRIX},
        live_out={"view"},
    )
    values = tensors(x=(4, 4), w=(4, 4))
    expected = values["x"] @ values["w"]
    slot = torch.zeros(4, 4)
    program.run(values, step=0, out={"p": slot})
    torch.testing.assert_close(slot, expected)
    slot.zero_()
    torch.testing.assert_close(values["view"], expected.T)


def test_a_value_written_out_is_still_read_by_later_nodes():
    program = Program(
        [matmul("x w", "p"), node("Tanh", "p", "y")],
        types={"x": MATRIX, "w": MATRIX},
        live_out={"y"},
    )
    values = tensors(x=(4, 4), w=(4, 4))
    expected = values["x"] @ values["w"]
    slot = torch.zeros(4, 4)
    program.run(values, step=0, out={"p": slot})
    torch.testing.assert_close(slot, expected)
    torch.testing.assert_close(values["y"], torch.tanh(expected))


def test_values_from_outside_and_several_results_can_be_written_out():
    layer_norm = Node(
        op="LayerNormGrad",
        operands=("dy", "x", "b", "g"),
        results=("dx", "db", "dg"),
        types=(MATRIX, VECTOR, VECTOR),
        attributes={"epsilon": 1e-5},
    )
    types = {"dy": MATRIX, "x": MATRIX, "b": VECTOR, "g": VECTOR}
    program = Program([layer_norm], types=types, live_out={"dx"})
    values = tensors(dy=(4, 4), x=(4, 4), b=(4,), g=(4,))
    given, again = values["b"].clone(), dict(values)
    out = {name: torch.zeros(4) for name in ("db", "dg", "b")}
    program.run(values, step=0, out=out)
    torch.testing.assert_close(out["b"], given)
    plain = Program([layer_norm], types=types, live_out={"dx", "db", "dg"})
    plain.run(again, step=0)
    for name in ("db", "dg"):
        torch.testing.assert_close(out[name], again[name])


ENDS = ("read by nobody", "kept", "written out", "kept and written out")


@pytest.mark.parametrize("has_pool", [False, True])
@pytest.mark.parametrize("ends", list(itertools.product(ENDS, repeat=2)))
def test_each_result_of_one_loop_goes_where_it_is_wanted(ends, has_pool):
    nodes = [node("Sqrt", "x", "s"), node("Add", "s x", "m")]
    named = dict(zip("sm", ends, strict=True))
    live = {name for name, end in named.items() if end.startswith("kept")}
    written = {name for name, end in named.items() if end.endswith("written out")}
    program = Program(
        nodes,
        types={"x": MATRIX},
        live_out=live,
        written=written,
        pool=TensorPool() if has_pool else None,
    )
    x = torch.rand(4, 4) + 1.0
    expected = {"s": x.sqrt(), "m": x.sqrt() + x}
    for _ in range(2):
        values = {"x": x.clone()}
        out = {name: torch.full((4, 4), torch.nan) for name in written}
        program.run(values, step=0, out=out)
        assert values.keys() - {"x"} == live
        for name, slot in out.items():
            torch.testing.assert_close(slot, expected[name], msg=name)
            slot.zero_()
        for name in live:
            torch.testing.assert_close(values[name], expected[name], msg=name)


def test_borrowers_are_the_live_out_values_that_may_share_memory():
    program = Program(
        [
            node("Reshape", "w", "flat", FLAT),
            node("Reshape", "flat", "square", MATRIX),
            node("Tanh", "w", "other"),
        ],
        types={"w": MATRIX},
        live_out={"square", "other"},
    )
    assert program.borrowers(["w"]) == {"square"}


def update_nodes():
    """A step of SGD with momentum, and the old weight's norm before it."""
    return [
        constant("decay", 0.9),
        constant("rate", -0.1),
        node("Mul", "m decay", "scaled"),
        node("Add", "scaled g", "new_m"),
        node("Mul", "new_m rate", "change"),
        node("Reshape", "w", "flat", FLAT),
        node("L2Norm", "flat", "norm", TensorType((), DType.F32), dims=(0,), keepdim=False),
        node("Add", "w change", "new_w"),
    ]


def test_an_elementwise_result_may_overwrite_an_operand_that_is_read_no_more():
    types = dict.fromkeys("gmw", MATRIX)
    program = Program(update_nodes(), types=types, live_out={"norm"}, written={"new_m", "new_w"})
    assert program.may_overwrite("new_w", "w")
    assert program.may_overwrite("new_m", "m")
    assert not program.may_overwrite("norm", "w")
    values = tensors(g=(4, 4), m=(4, 4), w=(4, 4))
    m, w = values["m"], values["w"]
    expected_m = m * 0.9 + values["g"]
    expected_w, norm = w - 0.1 * expected_m, w.norm()
    program.run(values, step=0, out={"new_m": m, "new_w": w})
    torch.testing.assert_close(m, expected_m)
    torch.testing.assert_close(w, expected_w)
    torch.testing.assert_close(values["norm"], norm)


def test_an_operand_that_is_read_later_is_not_overwritten():
    nodes = [constant("two", 2.0), node("Mul", "w two", "new_w"), matmul("new_w w", "p")]
    program = Program(nodes, types={"w": MATRIX}, live_out={"p"}, written={"new_w"})
    assert not program.may_overwrite("new_w", "w")


@pytest.mark.parametrize("live", ["w", "new_w", "flat"])
def test_a_value_that_lives_out_is_not_overwritten(live):
    types = dict.fromkeys("gmw", MATRIX)
    program = Program(update_nodes(), types=types, live_out={live}, written={"new_w"})
    assert not program.may_overwrite("new_w", "w")


def test_a_product_does_not_overwrite_its_factor():
    program = Program([matmul("x w", "p")], types={"x": MATRIX, "w": MATRIX}, live_out=())
    assert not program.may_overwrite("p", "w")


def test_select_may_overwrite_as_the_dynamic_loss_scale_needs():
    truth = TensorType((), DType.I1)
    program = Program(
        [node("Select", "ok new w", "kept")],
        types={"ok": truth, "new": MATRIX, "w": MATRIX},
        live_out=(),
    )
    assert program.may_overwrite("kept", "w")
    for ok in (True, False):
        values = {"ok": torch.tensor(ok), **tensors(new=(4, 4), w=(4, 4))}
        w = values["w"]
        expected = (values["new"] if ok else w).clone()
        program.run(values, step=0, out={"kept": w})
        torch.testing.assert_close(w, expected)


def test_random_nodes_see_the_step():
    random = node("RandomUniform", "", "r", VECTOR, low=0.0, high=1.0, seed=1, stream=0)
    program = Program([random], types={}, live_out={"r"})
    drawn = []
    for step in (0, 1, 0):
        values = {}
        program.run(values, step=step)
        assert values.keys() == {"r"}
        drawn.append(values["r"].tolist())
    assert drawn[0] == drawn[2] != drawn[1]


def test_a_failing_kernel_is_reported_with_node_shapes_and_place():
    where = Location(
        module="fc1",
        direction=Direction.FORWARD,
        frames=(Frame(function="forward", file="model.py", line=12),),
    )
    program = Program(
        [matmul("x w", "p", location=where)], types={"x": MATRIX, "w": MATRIX}, live_out={"p"}
    )
    with pytest.raises(InternalError) as failure:
        program.run(tensors(x=(4, 4), w=(3, 4)), step=0)
    message = str(failure.value)
    assert message.startswith("MatMul at fc1.fwd (model.py:12) failed on (%x: tensor<4x4xf32>")
    assert "(found (3, 4))" in message
    with pytest.raises(InternalError, match=r"%w: tensor<4x4xf32> \(found missing\)"):
        program.run(tensors(x=(4, 4)), step=0)


def test_an_operation_without_a_kernel_is_refused_when_the_program_is_made():
    with pytest.raises(InternalError, match="'Frobnicate' at the step function has no kernel"):
        Program([node("Frobnicate", "x", "y")], types={"x": MATRIX}, live_out={"y"})


def test_the_same_values_give_the_same_bits():
    nodes = [
        matmul("x w", "p"),
        node("Softmax", "p", "s", axis=1),
        node("Reduce", "s", "r", VECTOR, dimensions=(0,), keep_dims=(), reduce_kind="ADD"),
    ]
    big = TensorType((256, 256), DType.F32)
    nodes = [
        Node(
            op=n.op,
            operands=n.operands,
            results=n.results,
            types=(big if n.op != "Reduce" else TensorType((256,), DType.F32),),
            attributes=n.attributes,
        )
        for n in nodes
    ]
    program = Program(nodes, types={"x": big, "w": big}, live_out={"r"})
    x, w = torch.randn(256, 256), torch.randn(256, 256)
    results = set()
    for _ in range(5):
        values = {"x": x, "w": w}
        program.run(values, step=0)
        results.add(values["r"].numpy().tobytes())
    assert len(results) == 1


def test_nodes_computed_once_give_what_their_program_gives():
    nodes = [
        constant("a", 3.0),
        node("Reshape", "a", "flat", FLAT),
        node("Add", "flat flat", "twice", FLAT),
    ]
    program = Program(nodes, types={}, live_out={"a", "flat", "twice"})
    table = {}
    program.run(table, step=0)
    found = compute_once(nodes)
    assert found.keys() == table.keys()
    for name, tensor in found.items():
        np.testing.assert_array_equal(tensor.numpy(), table[name].numpy())
