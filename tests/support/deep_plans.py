"""Plans of many layers, written by hand, whose layers hang together."""

import dataclasses

from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import Commit, LayerStep, Output, StateTensor, Sum, Update
from tests.support.plans import f32, node, two_layer_plan

SCALAR = f32()


def deep_plan(num_layers, size=6, *, overwritten):
    """Return a plan with a layer step, an update and a weight for each layer, and global clipping.

    As traced ones do, it makes a vector of each layer's norm and puts them together; besides it
    adds them up layer by layer, beginning with a state tensor, and shows the sum.

    Args:
        num_layers: Layers.
        size: Elements of each weight.
        overwritten: Layer at which that state tensor is overwritten.
    """
    weight, norms = f32(size), f32(num_layers)
    types = dict.fromkeys(("rate", "clip", "begin", "began"), SCALAR) | {
        "all": norms,
        "all_sq": norms,
    }
    state, steps, updates, commits = ["rate", "begin"], [], [], []
    last = [
        node("Concat", " ".join(f"r{i}" for i in range(num_layers)), "all", norms, axis=0),
        node("Mul", "all all", "all_sq", norms),
        node("Reduce", "all_sq", "norm", SCALAR, **SUM),
        node("Div", "rate norm", "clip", SCALAR),
    ]
    for i in range(num_layers):
        nodes = [
            node("Mul", f"g{i} g{i}", f"q{i}", weight),
            node("Reduce", f"q{i}", f"n{i}", SCALAR, **SUM),
            node("Reshape", f"n{i}", f"r{i}", f32(1)),
            node("Add", f"n{i} {f'a{i - 1}' if i else 'begin'}", f"a{i}", SCALAR),
        ]
        last += [
            node("BroadcastInDim", "clip", f"b{i}", weight, broadcast_dimensions=()),
            node("Mul", f"g{i} b{i}", f"d{i}", weight),
            node("Sub", f"w{i} d{i}", f"v{i}", weight),
        ]
        types |= {f"{kind}{i}": weight for kind in "wgpqbdv"}
        types |= {f"n{i}": SCALAR, f"a{i}": SCALAR, f"r{i}": f32(1)}
        state.append(f"w{i}")
        steps.append(layer_step(i))
        commits.append(Commit(state=f"w{i}", value=f"v{i}"))
        early = ()
        if i == overwritten:
            nodes.append(node("Mul", "begin begin", "began", SCALAR))
            early = (Commit(state="begin", value="began"),)
        updates.append(Update(after=i, nodes=tuple(nodes), commits=early))
    updates[-1] = dataclasses.replace(
        updates[-1],
        nodes=(*updates[-1].nodes, *last),
        commits=(*updates[-1].commits, *commits),
    )
    outputs = ("clip", f"a{num_layers - 1}", "v1")
    return layered(types | {"norm": SCALAR}, state, steps, updates, outputs)


def chained_plan(num_layers, size=6):
    """Return a plan that updates every layer at once with what is made of the one before."""
    types = {f"{kind}{i}": f32(size) for kind in "wgpqbv" for i in range(num_layers)}
    types |= {f"n{i}": SCALAR for i in range(num_layers)}
    updates = []
    for i in range(num_layers):
        nodes = [node("Mul", f"g{i} w{i}", f"q{i}", f32(size))]
        nodes.append(node("Reduce", f"q{i}", f"n{i}", SCALAR, **SUM))
        before = f"n{max(i - 1, 0)}"
        nodes.append(node("BroadcastInDim", before, f"b{i}", f32(size), broadcast_dimensions=()))
        nodes.append(node("Mul", f"w{i} b{i}", f"v{i}", f32(size)))
        commits = (Commit(state=f"w{i}", value=f"v{i}"),)
        updates.append(Update(after=i, nodes=tuple(nodes), commits=commits))
    steps = [layer_step(i) for i in range(num_layers)]
    return layered(types, [f"w{i}" for i in range(num_layers)], steps, updates, ())


SUM = {"reduce_kind": "ADD", "dimensions": (0,), "keep_dims": ()}


def layer_step(number):
    return LayerStep(
        name=f"l{number}",
        module=f"l{number}",
        direction=None,
        loads=(f"w{number}",),
        nodes=(),
        sums=(Sum(partial=f"p{number}", total=f"g{number}"),),
    )


def layered(types, state, steps, updates, outputs):
    return dataclasses.replace(
        two_layer_plan(),
        state=tuple(
            StateTensor(resource_name=n, value=n, type=types[n], wire_dtype=DType.F32)
            for n in state
        ),
        outputs=tuple(
            Output(output_name=n, value=n, type=types[n], wire_dtype=DType.F32) for n in outputs
        ),
        layer_steps=tuple(steps),
        update_constants=(),
        updates=tuple(updates),
        types=types,
    )
