"""Signatures: what fits, and what is said of what does not."""

import pytest

from appliance.core.errors import InternalError
from appliance.core.ir.graph import Graph, Node
from appliance.core.ir.ops import SPECS, check_node, verify_ops
from appliance.core.ir.tensors import DType, TensorType
from tests.support.graphs import GraphBuilder


def tensor(*shape: int, dtype: DType = DType.F32) -> TensorType:
    return TensorType(shape, dtype)


def check(op: str, operands, results, **attributes) -> str:
    node = Node(
        op=op,
        operands=tuple(f"o{index}" for index in range(len(operands))),
        results=tuple(f"r{index}" for index in range(len(results))),
        types=tuple(results),
        attributes=attributes,
    )
    return check_node(node, operands)


CONV = {
    "conv_pass_direction": "FWD", "data_format": "NCHW", "stride": (2, 2), "padding": (1, 1),
    "dilation": (1, 1), "groups": 1,
}  # fmt: skip
FITTING = [
    ("MatMul", [tensor(2, 3), tensor(4, 3)], [tensor(2, 4)],
     {"transpose_a": False, "transpose_b": True}),
    ("DotGeneral", [tensor(2, 3, 4), tensor(2, 5, 4)], [tensor(2, 3, 5)],
     {"lhs_batching_dimensions": (0,), "rhs_batching_dimensions": (0,),
      "lhs_contracting_dimensions": (2,), "rhs_contracting_dimensions": (2,)}),
    ("Convolution", [tensor(2, 3, 8, 8), tensor(5, 3, 3, 3)], [tensor(2, 5, 4, 4)], CONV),
    ("Reduce", [tensor(2, 3, 4)], [tensor(2, 1)],
     {"dimensions": (1, 2), "keep_dims": (1,), "reduce_kind": "ADD"}),
    ("Reduce", [tensor(2, 3, dtype=DType.F16)], [tensor(3)],
     {"dimensions": (0,), "keep_dims": (), "reduce_kind": "ADD"}),
    ("Gather", [tensor(9, 4), tensor(2, 3, dtype=DType.I32)], [tensor(2, 3, 4)],
     {"axis": 0, "batch_dims": 0}),
    ("Gather", [tensor(2, 9), tensor(2, 3, dtype=DType.I64)], [tensor(2, 3)],
     {"axis": 1, "batch_dims": 0}),
    ("GatherNd", [tensor(5, 6, 7), tensor(4, 2, dtype=DType.I32)], [tensor(4, 7)],
     {"start_dim": 0}),
    ("LayerNormGrad", [tensor(2, 4)] * 2 + [tensor(4)] * 2, [tensor(2, 4), tensor(4), tensor(4)],
     {"epsilon": 1e-5}),
    ("pad", [tensor(2, 3)], [tensor(2, 8)],
     {"edge_padding_low": (0, 1), "edge_padding_high": (0, 2), "interior_padding": (0, 1),
      "padding_mode": "CONSTANT"}),
    ("Select", [tensor(dtype=DType.I1), tensor(2), tensor(2)], [tensor(2)], {}),
    ("OneHot", [tensor(2, dtype=DType.I64)], [tensor(2, 7)], {"axis": 1, "on": 1, "off": 0}),
    ("Repeat", [tensor(2, 3)], [tensor(4, 3)], {"repeats": (2, 1)}),
    ("StridedSliceGrad", [tensor(2)], [tensor(5)],
     {"begin": (1,), "end": (5,), "stride": (2,)}),
    ("Cast", [tensor(2)], [tensor(2, dtype=DType.I1)], {}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "operands", "results", "attributes"), FITTING)
def test_what_fits_is_accepted(op, operands, results, attributes):
    assert check(op, operands, results, **attributes) == ""


@pytest.mark.parametrize(("op", "operands", "results", "attributes"), FITTING)
def test_another_result_shape_is_refused(op, operands, results, attributes):
    wrong = TensorType((*results[0].shape, 13), results[0].dtype)
    assert check(op, operands, [wrong, *results[1:]], **attributes) != ""


@pytest.mark.parametrize(
    ("op", "operands", "results", "attributes", "problem"),
    [
        ("Add", [tensor(2)], [tensor(2)], {}, "has 1 operands, not 2"),
        ("Add", [tensor(2), tensor(3)], [tensor(2)], {}, "tensor<2xf32> and tensor<3xf32>"),
        ("Relu", [tensor(2)], [tensor(2), tensor(2)], {}, "has 2 results, not 1"),
        ("Softmax", [tensor(2)], [tensor(2)], {}, "lacks attribute 'axis'"),
        ("Tanh", [tensor(2)], [tensor(2, dtype=DType.F64)], {}, "turns f32 into f64"),
        ("Riddle", [], [], {}, "is not supported"),
        ("Concat", [], [tensor(2)], {"axis": 0}, "has no operands"),
    ],
)
def test_what_is_wrong_is_said(op, operands, results, attributes, problem):
    assert problem in check(op, operands, results, **attributes)


def test_every_operation_of_the_table_is_explained():
    text = __import__("appliance.core.ir.ops", fromlist=["__doc__"]).__doc__
    for op in SPECS:
        assert op in text, op


def test_a_graph_is_refused_with_the_place_of_the_wrong_node():
    builder = GraphBuilder()
    builder.output(builder.op("Relu", builder.batch(4, 2)))
    graph = builder.graph()
    wrong = Node(op="Tanh", operands=("x",), results=("t",), types=(tensor(9),))
    with pytest.raises(InternalError, match="Tanh at the step function has results"):
        verify_ops(Graph(arguments=graph.arguments, nodes=(wrong,), results=()))
