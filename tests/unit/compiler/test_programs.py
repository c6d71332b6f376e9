"""Every captured program compiles, and its plan keeps the rules that the engine relies on."""

from pathlib import Path

import pytest

from appliance.compiler.importer import import_program
from appliance.compiler.passes.layers import layer_of_resource
from appliance.compiler.pipeline import compile_program
from appliance.core.ir import graph_text
from appliance.core.ir.ops import check_node
from appliance.core.ir.sharding import localise, split_batch
from appliance.core.plans import plan_text
from appliance.core.plans.plan import Plan, Precision

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.mlir"))
NAMES = [path.stem for path in PROGRAMS]


@pytest.fixture(scope="module", params=PROGRAMS, ids=NAMES)
def text(request) -> str:
    return request.param.read_text()


@pytest.fixture(scope="module", params=list(Precision), ids=str)
def plan(request, text) -> Plan:
    return compile_program(text, batch_size=4, precision=request.param, num_systems=3)


def test_the_graph_survives_being_printed(text):
    graph = import_program(text)
    printed = graph_text.print_graph(graph)
    again = graph_text.parse_graph(printed)
    assert again == graph
    assert [n.location for n in again.nodes] == [n.location for n in graph.nodes]
    assert graph_text.print_graph(again) == printed


def test_the_plan_survives_being_printed(plan):
    printed = plan_text.print_plan(plan)
    again = plan_text.parse_plan(printed)
    assert again == plan
    assert plan_text.print_plan(again) == printed
    short = plan_text.print_plan(plan, with_locations=False)
    assert len(short) <= len(printed)
    assert plan_text.parse_plan(short) == plan


def test_the_same_text_gives_the_same_plan(text):
    one, two = (
        compile_program(text, batch_size=4, precision=Precision.F32, num_systems=n) for n in (1, 4)
    )
    assert plan_text.print_plan(one) == plan_text.print_plan(two)


def test_no_layer_step_loads_more_than_one_layers_weights(plan):
    resources = {tensor.value: tensor.resource_name for tensor in plan.state}
    for step in plan.layer_steps:
        weights = [name for name in step.loads if plan.types[name].shape and name in resources]
        layers = {layer_of_resource(resources[name]) for name in weights}
        assert len(layers) <= 1, (step.name, layers)


def test_streamed_values_are_never_sharded_and_never_constant(plan):
    for step in plan.layer_steps:
        assert plan.sharded.keys().isdisjoint(step.loads)
        constant = {name for node in plan.update_constants for name in node.results}
        assert constant.isdisjoint(step.loads)


def test_every_layer_step_does_something_that_needs_it(plan):
    for step in plan.layer_steps[:-1]:
        assert step.sums or any(plan.types[name].shape for name in step.loads), step.name


def test_all_state_that_changes_is_committed_once(plan, text):
    graph = import_program(text)
    changing = {
        argument.name
        for argument in graph.arguments
        if argument.aliased_result is not None
        and graph.results[argument.aliased_result].value != argument.name
    }
    commits = [commit.state for update in plan.updates for commit in update.commits]
    assert sorted(commits) == sorted(changing)


@pytest.mark.parametrize("num_systems", [1, 3, 4])
def test_localised_nodes_keep_their_signatures(plan, num_systems):
    for shard in split_batch(plan.batch_size, num_systems):
        types = {
            name: shard.local_type(type_, plan.sharded.get(name))
            for name, type_ in plan.types.items()
        }
        for step in plan.layer_steps:
            nodes = localise(step.nodes, sharded=plan.sharded, types=plan.types, shard=shard)
            for node in nodes:
                operand_types = [types[name] for name in node.operands]
                assert check_node(node, operand_types) == "" or node.op.startswith("wsc."), node
                assert node.types == tuple(types[name] for name in node.results)


def test_16_bit_types_are_gone_unless_precision_is_exact(plan):
    halves = {type_.dtype for type_ in plan.types.values() if type_.dtype.is_half}
    assert bool(halves) == (plan.precision is Precision.EXACT)


def test_partial_sums_are_never_rounded_to_16_bits(plan):
    for step in plan.layer_steps:
        exact = {name for n in step.nodes if n.op == "wsc.ShardPad" for name in n.results}
        for sum_ in step.sums:
            assert sum_.partial in exact or not plan.types[sum_.partial].dtype.is_half
