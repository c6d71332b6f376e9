"""Batches come from a system's workers in turn, and each system gets its own part."""

from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ir.sharding import split_batch
from appliance.core.ir.tensors import DType, TensorType
from protos.wsc.v1.pods_pb2 import BatchTensor, LoadRequest
from workers.input.shares import InputPlan, InputTensor, input_plan


def plan(*, num_systems=2, workers=1, first_batch=0, batch_size=5) -> InputPlan:
    tensor = InputTensor(
        name="input_0", type=TensorType((batch_size, 3), DType.F32), wire_dtype=DType.F16
    )
    return InputPlan(
        tensors=(tensor,),
        shards=split_batch(batch_size, num_systems),
        workers_per_system=workers,
        first_batch=first_batch,
    )


@given(st.integers(1, 5), st.integers(0, 20), st.integers(0, 30))
def test_every_step_has_one_worker_and_each_worker_its_steps(workers, first, num_steps) -> None:
    made = plan(workers=workers, first_batch=first)
    turns = [made.local_rank(step) for step in range(num_steps)]
    for rank in range(workers):
        assert made.num_batches(rank, num_steps) == turns.count(rank)


def test_the_turn_goes_on_where_an_earlier_session_stopped() -> None:
    made = plan(workers=3, first_batch=4)
    assert [made.local_rank(step) for step in range(4)] == [1, 2, 0, 1]


def test_a_share_has_its_rows_in_the_container_and_in_the_wire_type() -> None:
    made = plan()
    assert [made.layout(system).items[0].type.shape for system in (0, 1)] == [(3, 3), (2, 3)]
    assert made.layout(0).items[0].type.dtype is DType.F32
    assert made.wire_types(1) == (TensorType((2, 3), DType.F16),)


def test_a_load_request_says_all_of_it() -> None:
    request = LoadRequest(
        num_systems=2,
        workers_per_system=3,
        batch_size=5,
        first_batch=4,
        batch_tensors=[
            BatchTensor(input_name="input_0", shape=[5, 3], wire_dtype="f16", dtype="f32")
        ],
    )
    assert input_plan(request) == plan(workers=3, first_batch=4)
