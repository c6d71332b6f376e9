"""Operations that are written with simpler ones."""

import pytest

from appliance.compiler.passes.decompositions import _builder, decompose_scatter
from appliance.compiler.passes.rewriting import Names, constant_node
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType

TABLE = TensorType((4, 8), DType.BF16)
ROWS, INDICES = TensorType((2, 8), DType.BF16), TensorType((2, 1), DType.I64)


def test_a_scatter_starts_from_zeros_and_adds_what_was_there_once():
    names = ("base", "indices", "rows")
    node = Node(op="ScatterNd", operands=names, results=("sum",), types=(TABLE,))
    zeros, scattered, added = decompose_scatter(node, (TABLE, INDICES, ROWS), Names(names))
    (zero,) = zeros.results
    assert zeros.attributes == constant_node(zero, 0.0, TABLE, node.location).attributes
    assert (scattered.op, scattered.operands) == ("ScatterNd", (zero, "indices", "rows"))
    assert (added.op, added.operands) == ("Add", ("base", *scattered.results))
    assert (added.results, added.types) == (("sum",), (TABLE,))


@pytest.mark.parametrize(("dtype", "ops"), [(DType.F32, ["Sqrt"]), (DType.BF16, ["Sqrt", "Cast"])])
def test_a_result_is_cast_only_where_it_is_of_another_type(dtype, ops):
    wanted = TensorType((4,), dtype)
    node = Node(op="Whole", operands=("x",), results=("y",), types=(wanted,))
    builder = _builder(node, [TensorType((4,), DType.F32)], Names(["x"]))
    builder.finish(builder.emit("Sqrt", "x"), 0)
    assert [each.op for each in builder.nodes] == ops
    assert builder.nodes[-1].results == ("y",)
    assert builder.types["y"] == wanted
