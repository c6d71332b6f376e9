"""Layer steps: what each loads, when it runs, and when MemoryX may overwrite state."""

from appliance.compiler.passes.layers import layer_of_module, layer_of_resource
from appliance.compiler.pipeline import compile_graph
from appliance.core.ir.graph import UNKNOWN_LOCATION
from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import STEP_START, LayerStep, Plan, Precision
from tests.support.graphs import GraphBuilder, at

BATCH = 4


def compiled(builder: GraphBuilder) -> Plan:
    return compile_graph(builder.graph(), key="cs_0", batch_size=BATCH, precision=Precision.F32)


def layer(builder: GraphBuilder, x: str, module: str, *, name: str) -> tuple[str, str]:
    """Add a linear layer forward; return output and weight."""
    builder.location = at(module)
    weight = builder.state(4, 4, name=name, resource=f"state.model.{module}.weight")
    return builder.op("MatMul", x, weight, transpose_a=False, transpose_b=True), weight


def layer_grad(builder: GraphBuilder, dy: str, x: str, weight: str, module: str) -> tuple[str, str]:
    """Add a linear layer backward; return the gradients of input and weight."""
    builder.location = at(module, "bwd")
    dx = builder.op("MatMul", dy, weight, transpose_a=False, transpose_b=False)
    return dx, builder.op("MatMul", dy, x, transpose_a=True, transpose_b=False)


def descend(builder: GraphBuilder, weight: str, gradient: str) -> None:
    """Add a gradient descent update."""
    rate = builder.splat(-0.1, 4, 4)
    builder.update(weight, builder.op("Add", weight, builder.op("Mul", gradient, rate)))


def two_layers(*, weight_gradients_last: bool = False) -> GraphBuilder:
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    h, w0 = layer(builder, x, "blocks.0.fc", name="w0")
    y, w1 = layer(builder, h, "blocks.1.fc", name="w1")
    builder.location = UNKNOWN_LOCATION
    builder.output(builder.op("Reduce", y, dimensions=(0, 1), keep_dims=(), reduce_kind="ADD"))
    builder.location = at("blocks.1.fc", "bwd")
    if weight_gradients_last:
        dh = builder.op("MatMul", y, w1, transpose_a=False, transpose_b=False)
        _, g0 = layer_grad(builder, dh, x, w0, "blocks.0.fc")
        descend(builder, w0, g0)
        builder.location = at("blocks.1.fc", "bwd")
        g1 = builder.op("MatMul", y, h, transpose_a=True, transpose_b=False)
        descend(builder, w1, g1)
    else:
        dh, g1 = layer_grad(builder, y, h, w1, "blocks.1.fc")
        descend(builder, w1, g1)
        _, g0 = layer_grad(builder, dh, x, w0, "blocks.0.fc")
        descend(builder, w0, g0)
    return builder


def names(plan: Plan) -> list[str]:
    return [step.name for step in plan.layer_steps]


def test_a_layer_is_the_module_path_up_to_its_first_number():
    assert layer_of_module("blocks.1.fc2") == "blocks.1"
    assert layer_of_module("head") == "head"
    assert layer_of_module("MLP_1") == "MLP_1"
    assert layer_of_module("") == ""
    assert layer_of_resource("state.model.blocks.1.fc2.weight") == "blocks.1"


def test_layers_run_forward_and_then_in_reverse():
    plan = compiled(two_layers())
    assert names(plan) == ["blocks.0.fwd", "blocks.1.fwd", "blocks.1.bwd", "blocks.0.bwd"]
    assert [step.loads for step in plan.layer_steps] == [("w0",), ("w1",), ("w1",), ()]


def test_the_order_of_the_text_does_not_matter():
    plan = compiled(two_layers(weight_gradients_last=True))
    assert names(plan) == ["blocks.0.fwd", "blocks.1.fwd", "blocks.1.bwd", "blocks.0.bwd"]
    assert [len(step.sums) for step in plan.layer_steps] == [0, 1, 1, 1]


def test_each_weight_is_overwritten_as_soon_as_its_sum_is_there():
    plan = compiled(two_layers())
    commits = {c.state: update.after for update in plan.updates for c in update.commits}
    assert commits == {"w1": 2, "w0": 3}


def test_functions_of_state_alone_wait_for_the_sums_they_are_combined_with():
    builder = two_layers()
    builder.location = UNKNOWN_LOCATION
    momentum = builder.state(4, 4, name="m")
    decayed = builder.op("Mul", momentum, builder.splat(0.9, 4, 4))
    gradient = next(n.results[0] for n in builder.nodes if n.location == at("blocks.0.fc", "bwd")
                    and n.attributes.get("transpose_a"))  # fmt: skip
    builder.update(momentum, builder.op("Add", decayed, gradient))
    count = builder.state(name="count")
    builder.update(count, builder.op("Add", count, builder.splat(1.0)))
    plan = compiled(builder)
    (update,) = [u for u in plan.updates if decayed in [n.results[0] for n in u.nodes]]
    assert update.after == 3
    (first, *_) = plan.updates
    assert (first.after, [c.state for c in first.commits]) == (STEP_START, ["count"])


def test_casts_and_broadcasts_of_a_weight_are_repeated_where_they_are_used():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    builder.location = at("a")
    bias = builder.state(4, name="b", dtype=DType.F64, resource="state.model.a.bias")
    single = builder.op("Cast", bias, dtype=DType.F32)
    spread = builder.op("BroadcastInDim", single, shape=(BATCH, 4), broadcast_dimensions=(1,))
    y = builder.op("Add", x, spread)
    builder.location = at("m.1")
    w = builder.state(4, 4, resource="state.model.m.1.weight")
    z = builder.op("MatMul", y, w, transpose_a=False, transpose_b=False)
    builder.location = at("a", "bwd")
    builder.output(builder.op("Add", z, spread))
    plan = compiled(builder)
    assert [step.loads for step in plan.layer_steps] == [("b",), ("w",), ("b",)]
    rebuilt = [[n.op for n in step.nodes if n.op == "BroadcastInDim"] for step in plan.layer_steps]
    assert rebuilt == [["BroadcastInDim"], [], ["BroadcastInDim"]]


def test_costly_functions_of_a_weight_are_computed_in_memoryx_and_streamed():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    builder.location = at("a")
    w = builder.state(4, 4, resource="state.model.a.weight")
    normal = builder.op("Tanh", w)
    builder.output(builder.op("MatMul", x, normal, transpose_a=False, transpose_b=False))
    plan = compiled(builder)
    assert plan.updates[0].after == STEP_START
    assert [node.op for node in plan.updates[0].nodes] == ["Tanh"]
    assert plan.layer_steps[0].loads == (normal,)


def test_what_depends_on_constants_alone_is_computed_once():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    ramp = builder.op("Arange", shape=(4,), dtype=DType.F32, start=0.0, step=1.0, dim=0)
    curve = builder.op("Sin", ramp)
    spread = builder.op("BroadcastInDim", curve, shape=(BATCH, 4), broadcast_dimensions=(1,))
    builder.output(builder.op("Mul", x, spread))
    builder.output(curve, "output_curve")
    plan = compiled(builder)
    assert [node.op for node in plan.wafer_constants] == ["Arange", "Sin", "BroadcastInDim"]
    assert [node.op for node in plan.update_constants] == ["Arange", "Sin"]
    assert plan.layer_steps[0].loads == ()


def test_random_numbers_are_drawn_in_every_step_where_they_are_first_used():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    draw = builder.op(
        "RandomUniform", shape=(BATCH, 4), dtype=DType.F32, low=0.0, high=1.0, seed=1, stream=1
    )
    h, _ = layer(builder, x, "blocks.0", name="w0")
    y, _ = layer(builder, h, "blocks.1", name="w1")
    builder.output(builder.op("Mul", y, draw))
    plan = compiled(builder)
    assert not plan.wafer_constants
    drawing = [any(n.op == "RandomUniform" for n in step.nodes) for step in plan.layer_steps]
    assert drawing == [False, True]


def test_what_comes_back_from_memoryx_is_used_in_a_later_step():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    total = builder.op("Reduce", x, dimensions=(0,), keep_dims=(), reduce_kind="ADD")
    spread = builder.op("BroadcastInDim", total, shape=(BATCH, 4), broadcast_dimensions=(1,))
    builder.output(builder.op("Sub", x, spread))
    first, second = compiled(builder).layer_steps
    assert [sum_.total for sum_ in first.sums] == [total]
    assert second.loads == (total,)


def test_a_tied_weight_has_two_gradients_that_memoryx_adds():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    h, w = layer(builder, x, "tokens", name="w")
    builder.location = at("head")
    y = builder.op("MatMul", h, w, transpose_a=False, transpose_b=False)
    dh, one = layer_grad(builder, y, h, w, "head")
    _, two = layer_grad(builder, dh, x, w, "tokens")
    descend(builder, w, builder.op("Add", one, two))
    plan = compiled(builder)
    assert sum(len(step.sums) for step in plan.layer_steps) == 2
    (last,) = [update for update in plan.updates if update.commits]
    assert [node.op for node in last.nodes] == ["Add", "Mul", "Add"]


def test_a_module_used_twice_has_a_step_for_each_use():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    h, w = layer(builder, x, "shared", name="w")
    between, _ = layer(builder, h, "blocks.0", name="w0")
    builder.location = at("shared")
    builder.output(builder.op("MatMul", between, w, transpose_a=False, transpose_b=False))
    assert names(compiled(builder)) == ["shared.fwd", "blocks.0.fwd", "shared.fwd"]


def test_glue_without_weights_joins_the_step_of_its_inputs():
    builder = two_layers()
    assert all(step.loads or step.sums for step in compiled(builder).layer_steps)


def moved_states() -> tuple[GraphBuilder, str, str]:
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    a, b = builder.state(4, 4, name="a"), builder.state(4, 4, name="b")
    builder.output(builder.op("MatMul", x, a, transpose_a=False, transpose_b=False))
    return builder, a, b


def test_states_can_swap_their_values():
    builder, a, b = moved_states()
    builder.update(a, b)
    builder.update(b, a)
    plan = compiled(builder)
    copies = {n.results[0]: n.operands[0] for u in plan.updates for n in u.nodes}
    commits = {c.state: copies[c.value] for u in plan.updates for c in u.commits}
    assert commits == {a: b, b: a}


def test_a_state_that_goes_out_is_copied_before_it_is_overwritten():
    builder, a, b = moved_states()
    builder.output(builder.op("Reshape", a, shape=(16,)), "output_old")
    builder.update(a, builder.op("Tanh", b))
    plan = compiled(builder)
    old = next(o for o in plan.outputs if o.output_name == "output_old")
    assert "wsc.Copy" in [n.op for u in plan.updates for n in u.nodes if old.value in n.results]


def test_a_state_is_not_overwritten_while_a_view_of_it_is_still_to_be_read():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    w = builder.state(4)
    flat = builder.op("Reshape", w, shape=(2, 2))
    builder.update(w, builder.op("Tanh", w))
    total = builder.op("Reduce", x, dimensions=(0,), keep_dims=(), reduce_kind="ADD")
    later = builder.op("Add", builder.op("Reshape", total, shape=(2, 2)), flat)
    builder.output(later)
    plan = compiled(builder)
    assert [update.after for update in plan.updates if update.commits] == [0]


def test_unchanged_state_is_not_committed():
    builder, a, _ = moved_states()
    builder.update(a, a)
    assert not any(update.commits for update in compiled(builder).updates)


def test_every_step_has_a_name_for_people():
    step = compiled(two_layers()).layer_steps[2]
    assert isinstance(step, LayerStep)
    assert (step.module, str(step.direction)) == ("blocks.1", "bwd")
