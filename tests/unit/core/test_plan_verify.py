"""`plan.verify` finds every way in which a plan could not run."""

from dataclasses import replace

import pytest

from appliance.core.errors import InternalError
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.plan import (
    Commit,
    InputTensor,
    LayerStep,
    Output,
    Plan,
    Precision,
    StateTensor,
    Sum,
    Update,
    verify,
)

VECTOR = TensorType((4,), DType.F32)


def node(op: str, operands: str, result: str, **attributes) -> Node:
    return Node(
        op=op,
        operands=tuple(operands.split()),
        results=(result,),
        types=(VECTOR,),
        attributes=attributes,
    )


def step(name: str, loads: str = "", nodes=(), sums=()) -> LayerStep:
    return LayerStep(
        name=name,
        module=name,
        direction=None,
        loads=tuple(loads.split()),
        nodes=tuple(nodes),
        sums=tuple(Sum(partial=partial, total=total) for partial, total in sums),
    )


def plan(steps=None, updates=None, **changes) -> Plan:
    """A sound plan: y = x + w, its sum g, w := w + g."""
    steps = steps or (
        step("one", "w", [node("Add", "x w", "y")], []),
        step("two", "w", [node("Mul", "y w", "p")], [("p", "g")]),
    )
    updates = updates or (
        Update(after=1, nodes=(node("Add", "w g", "n"),), commits=(Commit(state="w", value="n"),)),
    )
    sound = Plan(
        key="cs_0",
        batch_size=4,
        precision=Precision.F32,
        state=(StateTensor(resource_name="w", value="w", type=VECTOR, wire_dtype=DType.F32),),
        inputs=(InputTensor(input_name="x", value="x", type=VECTOR, wire_dtype=DType.F32),),
        outputs=(Output(output_name="o", value="n", type=VECTOR, wire_dtype=DType.F32),),
        wafer_constants=(),
        layer_steps=tuple(steps),
        update_constants=(),
        updates=tuple(updates),
        sharded={"x": 0, "y": 0},
        types=dict.fromkeys(changes.pop("names", "w x y p g n").split(), VECTOR),
    )
    return replace(sound, **changes)


def commit(after: int, *nodes: Node, value: str = "n") -> Update:
    return Update(after=after, nodes=nodes, commits=(Commit(state="w", value=value),))


def test_a_sound_plan_passes():
    verify(plan())


UNSOUND = {
    "reads %g too early": plan(updates=[commit(0, node("Add", "w g", "n"))]),
    "follows 1": plan(
        updates=[commit(1, node("Add", "w g", "n")), Update(after=0, nodes=(), commits=())]
    ),
    "defines %y twice": plan(
        [
            step("one", "w", [node("Add", "x w", "y")]),
            step("two", "w", [node("Add", "x w", "y"), node("Mul", "y w", "p")], [("p", "g")]),
        ]
    ),
    "knows no type": plan(names="w x y p g n extra"),
    "before it exists": plan([step("one", "g", [node("Add", "x g", "p")], [("p", "g")])],
                             [commit(0, node("Add", "w g", "n"))], names="w x p g n",
                             sharded={"x": 0}),
    "reads %w, which is not there": plan(
        [step("one", "w", [node("Add", "x w", "y")]),
         step("two", "", [node("Mul", "y w", "p")], [("p", "g")])]
    ),
    "reads %v, which is not there": plan(
        [
            step("one", "w", [node("Reshape", "w", "v"), node("Add", "x v", "y")]),
            step("two", "", [node("Mul", "y v", "p")], [("p", "g")]),
        ],
        names="w x y p g n v",
    ),
    "loads a value twice": plan(
        [step("one", "w w", [node("Add", "x w", "y"), node("Mul", "y w", "p")], [("p", "g")])],
        [commit(0, node("Add", "w g", "n"))],
    ),
    "sends undefined %q": plan(
        [step("one", "w", [node("Add", "x w", "y"), node("Mul", "y w", "p")], [("q", "g")])],
        [commit(0, node("Add", "w g", "n"))],
    ),
    "but it is sharded": plan(sharded={"x": 0, "y": 0, "p": 0}),
    "is sharded along axis 0": plan(batch_size=3),
    "overwritten before its last load": plan(
        updates=[commit(0, node("Tanh", "w", "n"))]
    ),
    "overwritten before its last read": plan(
        updates=[
            commit(1, node("Reshape", "w", "v"), node("Add", "v g", "n")),
            Update(after=1, nodes=(node("Add", "v g", "m"),), commits=()),
        ],
        names="w x y p g n v m",
    ),
    "shares memory with state": plan(
        updates=[commit(1, node("Reshape", "w", "n"))]
    ),
    "overwritten twice": plan(
        updates=[commit(1, node("Add", "w g", "n")), commit(1)]
    ),
    "Output 'o' reads undefined": plan(
        updates=[commit(1, value="g")], names="w x y p g"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("message", "unsound"), UNSOUND.items(), ids=list(UNSOUND))
def test_an_unsound_plan_is_refused(message, unsound):
    with pytest.raises(InternalError, match=message):
        verify(unsound)
