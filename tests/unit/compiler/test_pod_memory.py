"""What pods ask of their nodes' memory follows from their plan."""

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.compiler.pipeline import compile_program
from appliance.compiler.pod_memory import pod_memory
from appliance.core.ids import Role
from appliance.core.plans.memory_by_role import PodMemory
from appliance.core.plans.plan import Precision
from appliance.wafer.timing.plan_memory import plan_memory
from appliance.wafer.timing.program_operations import score_values
from tests.support.plans import two_layer_plan

GPT = (Path(__file__).parent / "programs" / "gpt.mlir").read_text()
FEATURES, HIDDEN, CLASSES, BATCH = 8, 16, 4, 6
FLOAT = 4


@pytest.fixture
def memory():
    plan = two_layer_plan(batch_size=BATCH, features=FEATURES, hidden=HIDDEN, classes=CLASSES)
    return plan, pod_memory(plan)


def test_an_input_pod_counts_the_bytes_of_one_sample(memory):
    plan, sizes = memory
    whole = sum(plan.types[tensor.value].num_bytes for tensor in plan.inputs)
    assert whole > BATCH
    assert sizes.input_bytes == -(-whole // BATCH)


def test_a_system_asks_for_the_weights_that_it_keeps_as_far_as_it_may():
    sizes = pod_memory(compile_program(GPT, batch_size=4, precision=Precision.F32))

    def asked(keep_weight_bytes):
        found = sizes.by_role(num_systems=2, num_shards=1, keep_weight_bytes=keep_weight_bytes)
        return found[Role.CHIEF]

    assert sizes.kept_bytes > 1000
    assert asked(1000) - asked(0) == 1000
    assert asked(1 << 40) - asked(0) == sizes.kept_bytes


def test_memoryx_asks_for_two_bytes_of_each_value_that_is_sent_packed():
    plan = compile_program(GPT, batch_size=4, precision=Precision.EXACT)
    elements = sum(plan.types[name].num_elements for name in plan.packed)
    unpacked = pod_memory(replace(plan, packed={}))
    assert pod_memory(plan).state_bytes == unpacked.state_bytes + 2 * elements > 0


def test_memoryx_asks_for_the_state_and_a_ring_for_the_largest_layer(memory):
    plan, sizes = memory
    state = sum(tensor.type.num_bytes for tensor in plan.state)
    assert sizes.state_bytes >= state
    assert sizes.layer_bytes >= FLOAT * FEATURES * HIDDEN
    alone = sizes.by_role(num_systems=1, num_shards=1)[Role.WEIGHT]
    assert alone == sizes.state_bytes + 3 * sizes.layer_bytes
    half = sizes.by_role(num_systems=1, num_shards=2)[Role.WEIGHT]
    assert half == -(-sizes.state_bytes // 2) + 3 * sizes.layer_bytes


def test_a_system_asks_for_what_its_share_of_the_batch_holds(memory):
    _, sizes = memory
    assert sizes.sample_bytes >= FLOAT * (FEATURES + HIDDEN)
    one, two = (sizes.by_role(num_systems=n, num_shards=1)[Role.CHIEF] for n in (1, 2))
    assert one - two == (BATCH - BATCH // 2) * (sizes.sample_bytes + 4 * sizes.input_bytes)


def test_16_bit_values_count_as_what_carries_them():
    plan = compile_program(GPT, batch_size=4, precision=Precision.F32)
    on_wafer, carried = plan_memory(plan, score_values(plan)), pod_memory(plan)
    assert plan.narrow
    assert carried.sample_bytes > on_wafer.working_bytes + on_wafer.boundary_bytes
    exact = pod_memory(compile_program(GPT, batch_size=4, precision=Precision.EXACT))
    assert carried.state_bytes > exact.state_bytes


def test_the_sizes_are_stored_as_text(memory):
    _, sizes = memory
    assert PodMemory.from_json(sizes.to_json()) == sizes
