"""Programs whose weights come as their non-zeros compute what those of dense ones do."""

import pytest
import torch

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.programs.pool import TensorPool
from appliance.numerics.programs.program import Program
from appliance.numerics.programs.shared_programs import ProgramSource, ProgramTable
from appliance.numerics.sparse.matrices import SparseMatrix, sparse_matrix, values_at
from appliance.numerics.sparse.weight_products import gives_sparse, parts_of, reads_sparse

TOKENS, OUT, IN = 48, 96, 128
TYPES = {
    "x": TensorType((TOKENS, IN), DType.F32),
    "dy": TensorType((TOKENS, OUT), DType.F32),
    "w": TensorType((OUT, IN), DType.F32),
}


def matmul(left: str, right: str, result: str, *, a: bool = False, b: bool = False) -> Node:
    left_type, right_type = TYPES[left], TYPES[right]
    shape = (left_type.shape[1 if a else 0], right_type.shape[0 if b else 1])
    return Node(
        op="MatMul",
        operands=(left, right),
        results=(result,),
        types=(TensorType(shape, DType.F32),),
        attributes={"transpose_a": a, "transpose_b": b},
    )


FORWARD = matmul("x", "w", "y", b=True)
INPUT_GRADIENT = matmul("dy", "w", "dx")
GRADIENT = matmul("dy", "x", "dw", a=True)
NODES = (FORWARD, INPUT_GRADIENT, GRADIENT)


def weight(density: float, seed: int = 0) -> SparseMatrix:
    generator = torch.Generator().manual_seed(seed)
    kept = torch.rand(OUT, IN, generator=generator) < density
    return sparse_matrix(torch.randn(OUT, IN, generator=generator) * kept)


def activations() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(9)
    return {name: torch.randn(TYPES[name].shape, generator=generator) for name in ("x", "dy")}


def source() -> ProgramSource:
    return ProgramSource(
        nodes=NODES,
        types=TYPES,
        live_out=("y", "dx"),
        written=("dw",),
        sparse=("w",),
        gradients={"dw": "w"},
    )


def run(program: Program, matrix: SparseMatrix, name: str = "w") -> dict[str, torch.Tensor]:
    pattern = matrix.pattern
    parts = (matrix.values, pattern.offsets, pattern.columns)
    table = {**activations(), **dict(zip(parts_of(name), parts, strict=True))}
    found = torch.full((pattern.num_values,), torch.nan)
    program.run(table, step=0, out={"dw": found})
    assert table.keys() == {"y", "dx"}, "the weight's parts are gone with its last reader"
    return {**table, "dw": found}


@pytest.mark.parametrize("density", [0.0, 0.05, 0.15, 0.6, 1.0])
@pytest.mark.parametrize("pool", [None, TensorPool()])
def test_whatever_the_density_results_are_those_of_the_dense_weight(density, pool):
    matrix, given = weight(density), activations()
    found = run(source().program(pool=pool), matrix)
    dense = matrix.dense()
    wanted = torch.empty(matrix.pattern.num_values)
    values_at(given["dy"].T @ given["x"], matrix.pattern, wanted)
    torch.testing.assert_close(found["y"], given["x"] @ dense.T, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(found["dx"], given["dy"] @ dense, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(found["dw"], wanted, rtol=1e-5, atol=1e-4)


def test_a_program_takes_another_pattern_in_every_run():
    program = source().program()
    for seed, density in enumerate((0.1, 0.02, 0.7)):
        matrix = weight(density, seed)
        wanted = activations()["x"] @ matrix.dense().T
        torch.testing.assert_close(run(program, matrix)["y"], wanted, rtol=1e-5, atol=1e-4)


def test_parts_with_weights_in_another_form_do_not_share_a_program():
    table = ProgramTable({})
    dense = ProgramSource(nodes=NODES, types=TYPES, live_out=("y", "dx"), written=("dw",))
    assert [table.add(part)[0] for part in (source(), dense, source())] == [0, 1, 0]


def test_only_products_of_float32_with_the_weight_on_the_right_read_its_non_zeros():
    assert reads_sparse(FORWARD, {**TYPES}, "w")
    assert reads_sparse(INPUT_GRADIENT, TYPES, "w")
    assert not reads_sparse(GRADIENT, TYPES, "x")
    assert gives_sparse(GRADIENT, TYPES)
    assert not gives_sparse(FORWARD, TYPES)
    half = {**TYPES, "w": TensorType((OUT, IN), DType.BF16)}
    assert not reads_sparse(FORWARD, half, "w")
    square = {"w": TensorType((OUT, OUT), DType.F32)}
    node = Node(
        op="MatMul",
        operands=("w", "w"),
        results=("r",),
        types=(square["w"],),
        attributes={"transpose_a": False, "transpose_b": False},
    )
    assert not reads_sparse(node, square, "w")
