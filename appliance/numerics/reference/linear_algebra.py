"""Matrix products."""

from string import ascii_lowercase

import numpy as np

from appliance.core.ir.attributes import flag, integers
from appliance.core.ir.graph import Node
from appliance.numerics.reference.definition import Array, Definition


def matmul(node: Node, a: Array, b: Array) -> Array:
    """Product of two matrices, each transposed beforehand where the attribute says so."""
    left = a.T if flag(node, "transpose_a") else a
    right = b.T if flag(node, "transpose_b") else b
    return left @ right


def dot_general(node: Node, a: Array, b: Array) -> Array:
    """Sum of products over the contracting dims, for each index of the batching dims.

    Result dims: batching, rest of a, rest of b. Source: StableHLO specification, dot_general.
    """
    letters = iter(ascii_lowercase)
    left, right = [""] * a.ndim, [""] * b.ndim
    batch = ""
    for i, j in _pairs(node, "batching"):
        left[i] = right[j] = next(letters)
        batch += left[i]
    for i, j in _pairs(node, "contracting"):
        left[i] = right[j] = next(letters)
    left_free = [i for i in range(a.ndim) if not left[i]]
    right_free = [j for j in range(b.ndim) if not right[j]]
    for i in left_free:
        left[i] = next(letters)
    for j in right_free:
        right[j] = next(letters)
    result = batch + "".join(left[i] for i in left_free) + "".join(right[j] for j in right_free)
    return np.asarray(np.einsum(f"{''.join(left)},{''.join(right)}->{result}", a, b))


def _pairs(node: Node, kind: str) -> list[tuple[int, int]]:
    left = integers(node, f"lhs_{kind}_dimensions")
    return list(zip(left, integers(node, f"rhs_{kind}_dimensions"), strict=True))


DEFINITIONS: dict[str, Definition] = {"DotGeneral": dot_general, "MatMul": matmul}
