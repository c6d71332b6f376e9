"""Which loads are sent in two bytes a value: those that everybody casts to one 16-bit format."""

import dataclasses

import pytest

from appliance.core.errors import InternalError
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.loads.packed import packed_loads, without_casts
from appliance.core.plans.plan import Precision, verify
from appliance.core.plans.plan_text import parse_plan, print_plan
from appliance.core.plans.shard_plans import shard_plans
from tests.support.masked_plans import masked_plan
from tests.support.narrow_plans import narrow_plan
from tests.support.plans import node, two_layer_plan

HIDDEN = TensorType((16, 8), DType.BF16)
OTHER = TensorType((16, 8), DType.F16)


def with_casts(*types, plan=None):
    """Return a plan whose first layer step casts %w1, which others read in float32, so often."""
    plan = plan or two_layer_plan()
    first, *rest = plan.layer_steps
    casts = tuple(node("Cast", "w1", f"w1.{index}", type_) for index, type_ in enumerate(types))
    steps = (dataclasses.replace(first, nodes=casts), *rest)
    made = {each.results[0]: each.types[0] for each in casts}
    return dataclasses.replace(plan, layer_steps=steps, types={**plan.types, **made})


def test_a_load_that_every_node_casts_to_one_format_is_packed():
    assert packed_loads(with_casts(HIDDEN)) == {"w1": DType.BF16}
    assert packed_loads(with_casts(HIDDEN, HIDDEN)) == {"w1": DType.BF16}


def test_a_load_that_a_node_reads_in_float32_is_not():
    assert "w1" not in packed_loads(two_layer_plan())
    first, *_ = two_layer_plan().layer_steps
    plan = with_casts(HIDDEN)
    nodes = (*plan.layer_steps[0].nodes, *first.nodes)
    steps = (dataclasses.replace(first, nodes=nodes), *plan.layer_steps[1:])
    assert packed_loads(dataclasses.replace(plan, layer_steps=steps)) == {}


def test_a_load_of_two_formats_is_not():
    assert packed_loads(with_casts(HIDDEN, OTHER)) == {}


def test_a_load_whose_cast_outlives_its_layer_step_is_not():
    plan = with_casts(HIDDEN)
    first, second, *rest = plan.layer_steps
    late = node("Abs", "w1.0", "late", HIDDEN)
    second = dataclasses.replace(second, nodes=(*second.nodes, late))
    plan = dataclasses.replace(
        plan, layer_steps=(first, second, *rest), types={**plan.types, "late": HIDDEN}
    )
    assert packed_loads(plan) == {}


def test_a_load_of_a_16_bit_type_is_packed_whoever_reads_it():
    plan = two_layer_plan(types={"w1": TensorType((16, 8), DType.CB16)})
    assert packed_loads(plan) == {"w1": DType.CB16}


def test_a_program_in_float32_packs_nothing():
    assert masked_plan(Precision.F32).packed == {}


def test_of_a_traced_program_all_weights_are_packed_but_those_of_normalization_and_embedding():
    plan = narrow_plan(half="cbfloat16")
    resources = {tensor.value: tensor.resource_name for tensor in plan.state}
    loads = {name for step in plan.layer_steps for name in step.loads}
    whole = {resources[name] for name in loads - plan.packed.keys() if plan.types[name].shape}
    kinds = {name.removeprefix("state.model.").rpartition(".")[0] for name in whole}
    assert {kind.rpartition(".")[2] for kind in kinds} == {"wte", "wpe", "ln1", "ln2", "lnf"}
    assert set(plan.packed.values()) == {DType.CB16}


def test_a_system_reads_packed_loads_where_it_read_their_casts():
    plan = narrow_plan()
    own = without_casts(plan)
    for step, before in zip(own.layer_steps, plan.layer_steps, strict=True):
        casts = [n for n in before.nodes if n.op == "Cast" and n.operands[0] in plan.packed]
        assert len(step.nodes) == len(before.nodes) - len(casts)
        gone = {each.results[0] for each in casts}
        assert gone.isdisjoint(name for each in step.nodes for name in each.operands)
    for name, dtype in plan.packed.items():
        assert own.types[name] == TensorType(plan.types[name].shape, dtype)


def test_packed_loads_are_part_of_a_plans_text_and_of_each_shards_own_plan():
    plan = narrow_plan()
    assert parse_plan(print_plan(plan)).packed == plan.packed
    shards = [shard.plan.packed for shard in shard_plans(plan, 2)]
    assert all(shards)
    assert dict(item for packed in shards for item in packed.items()) == plan.packed


@pytest.mark.parametrize(
    "packed", [{"w1": DType.BF16}, {"w1": DType.F32}, {"x": DType.BF16}], ids=str
)
def test_a_plan_that_packs_what_is_read_in_float32_is_refused(packed):
    with pytest.raises(InternalError, match="sent as"):
        verify(dataclasses.replace(two_layer_plan(), packed=packed))
