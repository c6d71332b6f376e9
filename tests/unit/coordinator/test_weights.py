"""Weights arrive whole and of the right type, or not at all."""

import numpy as np
import pytest

from appliance.coordinator.weights.initial_weights import WeightIngress
from appliance.core.errors import ConflictError, NotFoundError, UserError
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.plan import Plan, Precision, StateTensor
from appliance.wire.tensor_chunks import parse_chunk
from protos.appliance.appliance_service_pb2 import SendInputRequest
from protos.appliance.rtfx_pb2 import RtFxProto


def make_plan(wire_dtype=DType.F32):
    state = StateTensor(
        resource_name="w", value="w0", type=TensorType((2, 3), DType.F32), wire_dtype=wire_dtype
    )
    return Plan(
        key="cs_test",
        batch_size=1,
        precision=Precision.F32,
        state=(state,),
        inputs=(),
        outputs=(),
        wafer_constants=(),
        layer_steps=(),
        update_constants=(),
        updates=(),
        sharded={},
        types={"w0": state.type},
    )


def message(data=b"", *, name="w", dtype=RtFxProto.T_F32, shape=(2, 3)):
    request = SendInputRequest(tensor_name=name)
    request.rtfx_proto.dtype = dtype
    request.rtfx_proto.tensor.shape.extend(shape)
    request.rtfx_proto.tensor.data = data
    return parse_chunk(request.SerializeToString())


@pytest.fixture
def view():
    return np.zeros((2, 3), np.float32)


VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_tensor_arrives_in_chunks_that_need_not_end_between_elements(view) -> None:
    ingress = WeightIngress(make_plan(), {"w": view})
    raw = VALUES.tobytes()
    stream = iter([message(), message(raw[:7]), message(raw[7:])])
    assert list(ingress.receive(stream)) == ["", "w"]
    np.testing.assert_array_equal(view, VALUES)
    assert ingress.written == ("w",)


def test_a_half_is_widened_into_its_float32_container(view) -> None:
    ingress = WeightIngress(make_plan(DType.F16), {"w": view})
    raw = VALUES.astype(np.float16).tobytes()
    list(ingress.receive(iter([message(raw, dtype=RtFxProto.T_F16)])))
    np.testing.assert_array_equal(view, VALUES)


@pytest.mark.parametrize("size", [0, 4, 23])
def test_a_cut_stream_commits_nothing_and_says_both_lengths(view, size) -> None:
    ingress = WeightIngress(make_plan(), {"w": view})
    with pytest.raises(UserError, match=f"'w' ended after {size} bytes; .* takes 24"):
        list(ingress.receive(iter([message(), message(VALUES.tobytes()[:size])])))
    assert ingress.written == ()


def test_too_many_bytes_are_refused(view) -> None:
    ingress = WeightIngress(make_plan(), {"w": view})
    with pytest.raises(UserError, match="'w' ended after 28 bytes"):
        list(ingress.receive(iter([message(), message(VALUES.tobytes() + b"\0\0\0\0")])))


def test_a_wrong_type_a_wrong_shape_and_an_unknown_name_are_refused_at_once(view) -> None:
    ingress = WeightIngress(make_plan(), {"w": view})
    with pytest.raises(UserError, match="T_F64"):
        next(ingress.receive(iter([message(dtype=RtFxProto.T_F64)])))
    with pytest.raises(UserError, match=r"\[3, 2\]"):
        next(ingress.receive(iter([message(shape=(3, 2))])))
    with pytest.raises(NotFoundError, match="no state tensor 'v'"):
        next(ingress.receive(iter([message(name="v")])))


def test_a_scalar_fills_the_whole_tensor(view) -> None:
    ingress = WeightIngress(make_plan(), {"w": view})
    request = SendInputRequest(tensor_name="w")
    request.rtfx_proto.dtype = RtFxProto.T_F32
    request.rtfx_proto.scalar.data = np.float32(2.5).tobytes()
    chunk = parse_chunk(request.SerializeToString())
    assert list(ingress.receive(iter([chunk]))) == ["w"]
    np.testing.assert_array_equal(view, np.full((2, 3), 2.5, np.float32))


def test_a_tensor_may_be_sent_again_after_a_cut_stream_but_not_after_a_whole_one(view) -> None:
    ingress = WeightIngress(make_plan(), {"w": view})
    with pytest.raises(UserError):
        list(ingress.receive(iter([message(b"\0")])))
    list(ingress.receive(iter([message(VALUES.tobytes())])))
    with pytest.raises(ConflictError, match="sent twice"):
        list(ingress.receive(iter([message(VALUES.tobytes())])))
