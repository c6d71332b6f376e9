"""Parts that differ in names only share a program; whatever else differs keeps them apart."""

import numpy as np
import pytest
import torch

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import Constant, DType, TensorType
from appliance.numerics.programs.shared_programs import ProgramSource, ProgramTable

VECTOR = TensorType((4,), DType.F32)


def node(op, operands, result, type_=VECTOR, **attributes):
    return Node(
        op=op,
        operands=tuple(operands.split()),
        results=(result,),
        types=(type_,),
        attributes=attributes,
    )


def layer(tag, *, op="Mul", factor=2.0, type_=VECTOR, live_out=("y",), written=()):
    """Return a small layer whose names end with a tag."""
    nodes = [
        node("Const", "", f"k{tag}", type_, value=Constant(type_, np.float32(factor).tobytes())),
        node(op, f"x{tag} k{tag}", f"h{tag}", type_),
        node("Add", f"h{tag} w{tag}", f"y{tag}", type_),
    ]
    return ProgramSource(
        nodes=nodes,
        types={f"x{tag}": type_, f"w{tag}": type_},
        live_out={f"{name}{tag}" for name in live_out},
        written=tuple(f"{name}{tag}" for name in written),
    )


def test_a_copy_of_a_layer_runs_the_program_of_the_first():
    parts = ProgramTable({})
    first, _ = parts.add(layer("_0"))
    second, inner = parts.add(layer("_1"))
    assert second == first
    assert len(parts.parts) == 1
    table = {inner["x_1"]: torch.arange(4.0), inner["w_1"]: torch.ones(4)}
    parts.parts[second].program().run(table, step=0)
    assert table[inner["y_1"]].tolist() == [1.0, 3.0, 5.0, 7.0]


@pytest.mark.parametrize(
    "change",
    [
        {"op": "Sub"},
        {"factor": 3.0},
        {"factor": -0.0},
        {"type_": TensorType((5,), DType.F32)},
        {"live_out": ("h", "y")},
        {"written": ("h",)},
    ],
)
def test_a_layer_that_differs_has_a_program_of_its_own(change):
    parts = ProgramTable({})
    base = {"factor": 0.0} if change == {"factor": -0.0} else {}
    first, _ = parts.add(layer("_0", **base))
    second, _ = parts.add(layer("_1", **change))
    assert second != first


@pytest.mark.parametrize(("second", "is_shared"), [(2.0, True), (3.0, False)])
def test_known_numbers_are_part_of_what_is_computed(second, is_shared):
    known = {"k_0": torch.tensor(2.0).expand(4), "k_1": torch.tensor(second).expand(4)}
    parts = ProgramTable(known)
    numbers = []
    for tag in ("_0", "_1"):
        nodes = [node("Mul", f"x{tag} k{tag}", f"h{tag}"), node("Add", f"h{tag} x{tag}", f"y{tag}")]
        types = {f"x{tag}": VECTOR, f"k{tag}": VECTOR}
        part = ProgramSource(nodes=nodes, types=types, live_out={f"y{tag}"}, written=())
        numbers.append(parts.add(part)[0])
    assert (numbers[0] == numbers[1]) is is_shared
