"""Plans written by hand, small enough to check against a few lines of torch."""

from dataclasses import replace

import numpy as np
import torch

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import Constant, DType, TensorType
from appliance.core.plans.plan import (
    STEP_START,
    Commit,
    InputTensor,
    LayerStep,
    Output,
    Plan,
    Precision,
    StateTensor,
    Sum,
    Update,
)

LEARNING_RATE = 0.05
DECAY = 0.9


def f32(*shape):
    return TensorType(tuple(shape), DType.F32)


def node(op, operands, result, type_, **attributes):
    return Node(
        op=op,
        operands=tuple(operands.split()),
        results=(result,),
        types=(type_,),
        attributes=attributes,
    )


def number(result, value):
    data = np.float32(value).tobytes()
    return node("Const", "", result, f32(), value=Constant(type=f32(), data=data))


EVERY_ELEMENT = {"reduce_kind": "ADD", "dimensions": (0, 1)}


def two_layer_plan(
    *, batch_size=5, features=8, hidden=16, classes=4, precision=Precision.F32, types=None
):
    """Two linear layers, half the summed squared error times a decaying scale, SGD.

    It has what an engine can get wrong: a computed load, a sum that is read late, outputs from
    early and late, a state tensor that no layer step loads, layer steps without loads or sums.
    `types` replaces the types of single values.
    """
    types = _two_layer_types(batch_size, features, hidden, classes) | (types or {})

    def make(op, operands, result, **attributes):
        return node(op, operands, result, types[result], **attributes)

    def described(kind, key, prefix, name):
        return kind(**{key: f"{prefix}{name}"}, value=name, type=types[name], wire_dtype=DType.F32)

    return Plan(
        key="cs_0",
        batch_size=batch_size,
        precision=precision,
        state=tuple(
            described(StateTensor, "resource_name", "state.", name)
            for name in ("w1", "scale", "w2")
        ),
        inputs=tuple(described(InputTensor, "input_name", "input_", name) for name in ("x", "y")),
        outputs=tuple(
            described(Output, "output_name", "output_", name)
            for name in ("loss", "scale", "norm", "w2", "g2")
        ),
        wafer_constants=(),
        layer_steps=_two_layer_steps(make),
        update_constants=(number("half", 0.5), number("decay", DECAY), number("one", 1.0)),
        updates=_two_layer_updates(make),
        sharded=dict.fromkeys(("x", "y", "h", "p", "d", "sq", "gs_b", "dp", "dh"), 0),
        types=types,
    )


def _two_layer_types(batch_size, features, hidden, classes):
    w1, w2 = f32(hidden, features), f32(classes, hidden)
    by_type = {
        f32(): "scale loss_part loss_sum loss gs half lr decay one scale_new n1 n2 norm",
        f32(batch_size, features): "x",
        f32(batch_size, classes): "y p d sq gs_b dp",
        f32(batch_size, hidden): "h dh",
        w1: "w1 g1_part g1 lr1 s1 w1_new q1",
        w2: "w2 g2_part g2 lr2 s2 w2_new q2",
    }
    return {name: type_ for type_, names in by_type.items() for name in names.split()}


def _two_layer_steps(make):
    def step(name, loads, nodes, *sums):
        return LayerStep(
            name=name,
            module=name,
            direction=None,
            loads=tuple(loads.split()),
            nodes=tuple(nodes),
            sums=tuple(Sum(partial=partial, total=total) for partial, total in sums),
        )

    loss = [
        make("Sub", "p y", "d"),
        make("Mul", "d d", "sq"),
        make("Reduce", "sq", "loss_part", **EVERY_ELEMENT),
        make("BroadcastInDim", "gs", "gs_b", broadcast_dimensions=()),
        make("Mul", "d gs_b", "dp"),
    ]
    second = [
        make("MatMul", "dp w2", "dh"),
        make("MatMul", "dp h", "g2_part", transpose_a=True),
    ]
    return (
        step("fc1.fwd", "w1", [make("MatMul", "x w1", "h", transpose_b=True)]),
        step("fc2.fwd", "w2", [make("MatMul", "h w2", "p", transpose_b=True)]),
        step("loss", "gs", loss, ("loss_part", "loss_sum")),
        step("fc2.bwd", "w2", second, ("g2_part", "g2")),
        step(
            "fc1.bwd", "", [make("MatMul", "dh x", "g1_part", transpose_a=True)], ("g1_part", "g1")
        ),
    )


def _two_layer_updates(make):
    second = (
        number("lr", LEARNING_RATE),
        make("BroadcastInDim", "lr", "lr2", broadcast_dimensions=()),
        make("Mul", "g2 lr2", "s2"),
        make("Sub", "w2 s2", "w2_new"),
    )
    first = (
        make("BroadcastInDim", "half", "lr1", broadcast_dimensions=()),
        make("Mul", "g1 lr1", "s1"),
        make("Sub", "w1 s1", "w1_new"),
        make("Mul", "g1 g1", "q1"),
        make("Mul", "g2 g2", "q2"),
        make("Reduce", "q1", "n1", **EVERY_ELEMENT),
        make("Reduce", "q2", "n2", **EVERY_ELEMENT),
        make("Add", "n1 n2", "norm"),
        make("Mul", "scale decay", "scale_new"),
    )
    return (
        Update(after=STEP_START, nodes=(make("Mul", "scale one", "gs"),), commits=()),
        Update(after=2, nodes=(make("Mul", "loss_sum half", "loss"),), commits=()),
        Update(after=3, nodes=second, commits=(Commit(state="w2", value="w2_new"),)),
        Update(
            after=4,
            nodes=first,
            commits=(
                Commit(state="w1", value="w1_new"),
                Commit(state="scale", value="scale_new"),
            ),
        ),
    )


def _layer_step(name, loads, nodes, sums=()):
    """A layer step of a module of the same name."""
    return LayerStep(
        name=name, module=name, direction=None, loads=loads, nodes=tuple(nodes), sums=sums
    )


def deep_plan(*, num_layers, width, batch_size=2):
    """A chain of square linear layers whose last output is the gradient too; SGD.

    Each layer's weight is loaded once forward and once backward.
    """
    x, w = f32(batch_size, width), f32(width, width)
    types = {"h0": x, f"d{num_layers}": x, "rate": f32()}
    names = range(num_layers)
    for i in names:
        types |= {f"h{i + 1}": x, f"d{i}": x}
        types |= {f"{kind}{i}": w for kind in ("w", "part", "g", "r", "s", "n")}

    def make(op, operands, result, **attributes):
        return node(op, operands, result, types[result], **attributes)

    forward = [
        _layer_step(
            f"{i}.fwd", (f"w{i}",), [make("MatMul", f"h{i} w{i}", f"h{i + 1}", transpose_b=True)]
        )
        for i in names
    ]
    top = make("Mul", f"h{num_layers} h{num_layers}", f"d{num_layers}")
    backward = [
        _layer_step(
            f"{i}.bwd",
            (f"w{i}",),
            [
                *([top] if i == num_layers - 1 else []),
                make("MatMul", f"d{i + 1} h{i}", f"part{i}", transpose_a=True),
                make("MatMul", f"d{i + 1} w{i}", f"d{i}"),
            ],
            (Sum(partial=f"part{i}", total=f"g{i}"),),
        )
        for i in reversed(names)
    ]
    updates = [
        Update(
            after=2 * num_layers - 1 - i,
            nodes=(
                make("BroadcastInDim", "rate", f"r{i}", broadcast_dimensions=()),
                make("Mul", f"g{i} r{i}", f"s{i}"),
                make("Sub", f"w{i} s{i}", f"n{i}"),
            ),
            commits=(Commit(state=f"w{i}", value=f"n{i}"),),
        )
        for i in reversed(names)
    ]
    return Plan(
        key="cs_deep",
        batch_size=batch_size,
        precision=Precision.F32,
        state=tuple(
            StateTensor(resource_name=f"w{i}", value=f"w{i}", type=w, wire_dtype=DType.F32)
            for i in names
        ),
        inputs=(InputTensor(input_name="input_0", value="h0", type=x, wire_dtype=DType.F32),),
        outputs=(),
        wafer_constants=(),
        layer_steps=(*forward, *backward),
        update_constants=(number("rate", 1e-3),),
        updates=tuple(updates),
        sharded={f"{kind}{i}": 0 for kind in "hd" for i in range(num_layers + 1)},
        types=types,
    )


def two_layer_reference(state, batches):
    """Run the same in plain torch; return the outputs of each step and the final state."""
    w1, w2, scale = (torch.from_numpy(state[f"state.{name}"].copy()) for name in STATE_NAMES)
    outputs = []
    for batch in batches:
        x, y = torch.from_numpy(batch["x"]), torch.from_numpy(batch["y"])
        h = x @ w1.T
        d = h @ w2.T - y
        dp = d * scale
        g2, g1 = dp.T @ h, (dp @ w2).T @ x
        outputs.append({
            "output_loss": 0.5 * (d * d).sum(), "output_scale": scale,
            "output_norm": (g1 * g1).sum() + (g2 * g2).sum(), "output_w2": w2, "output_g2": g2,
        })  # fmt: skip
        w1, w2, scale = w1 - 0.5 * g1, w2 - LEARNING_RATE * g2, scale * DECAY
    final = dict(zip((f"state.{name}" for name in STATE_NAMES), (w1, w2, scale), strict=True))
    return [_numpy(step) for step in outputs], _numpy(final)


STATE_NAMES = ("w1", "w2", "scale")


def _numpy(tensors):
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def two_layer_data(plan, *, num_steps, seed=0):
    """Return an initial state and a batch for each step."""
    generator = np.random.default_rng(seed)

    def draw(type_):
        return (0.3 * generator.standard_normal(type_.shape)).astype(np.float32)

    state = {tensor.resource_name: draw(tensor.type) for tensor in plan.state}
    state["state.scale"] = np.array(0.1, dtype=np.float32)
    batches = [
        {tensor.value: draw(tensor.type) for tensor in plan.inputs} for _ in range(num_steps)
    ]
    return state, batches


def deep_plan_with_momentum(*, num_layers, width):
    """The deep plan, whose updates keep a moment of each weight."""
    plan = deep_plan(num_layers=num_layers, width=width)
    w = f32(width, width)
    updates = tuple(
        replace(
            update,
            nodes=(
                *update.nodes,
                node("Add", f"m{layer} g{layer}", f"next{layer}", w),
            ),
            commits=(*update.commits, Commit(state=f"m{layer}", value=f"next{layer}")),
        )
        for layer, update in zip(reversed(range(num_layers)), plan.updates, strict=True)
    )
    moments = tuple(
        StateTensor(resource_name=f"m{i}", value=f"m{i}", type=w, wire_dtype=DType.F32)
        for i in range(num_layers)
    )
    types = {f"{kind}{i}": w for kind in ("m", "next") for i in range(num_layers)}
    return replace(
        plan, state=(*plan.state, *moments), updates=updates, types={**plan.types, **types}
    )
