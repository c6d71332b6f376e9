"""A client whose connection breaks before the answer comes makes the call again, as gRPC does."""

import json

import grpc
import numpy as np
import pytest

from appliance.core.ids import Role
from protos.appliance import appliance_service_pb2 as pb
from protos.appliance import appliance_service_pb2_grpc, ws_common_pb2
from protos.appliance.rtfx_pb2 import RtFxProto
from protos.appliance.ws_common_pb2 import StatusCode
from protos.wsc.v1 import pods_pb2
from tests.support.faulty_link import FaultyLink
from tests.support.played_job import AUTHORITY, SECONDS, PlayedJob
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PROGRAM = "module { func @graph() }"
RETRIES = {
    "methodConfig": [
        {
            "name": [{"service": "cerebras.Appliance"}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "UNKNOWN", "RESOURCE_EXHAUSTED"],
            },
        }
    ]
}
"""The client's policy, but for the time between attempts."""


class Repeating:
    """A client behind a link that loses answers.

    Args:
        job: Whose coordinator it calls.
        address: host:port of that.
    """

    def __init__(self, job, address):
        self.job, self.link = job, FaultyLink(address)
        options = [
            ("grpc.service_config", json.dumps(RETRIES)),
            ("grpc.default_authority", AUTHORITY),
        ]
        self.channel = grpc.insecure_channel(self.link.address, options=options)
        self.stub = appliance_service_pb2_grpc.ApplianceStub(self.channel)

    def call(self, method, request, *, until):
        """Make a call whose first answer is lost; `until` says when it has had its effect."""
        self.stub.UnaryPing(ws_common_pb2.PingRequest(), wait_for_ready=True, timeout=SECONDS)
        before = self.link.num_connections
        self.link.swallow()
        answer = getattr(self.stub, method).future(request, timeout=SECONDS)
        wait_until(until, seconds=SECONDS, what=f"the effect of {method}")
        self.link.cut()
        got = answer.result()
        assert self.link.num_connections > before
        assert (got.code, got.message) == (StatusCode.WS_RT_SUCCESS, "")
        return got

    def num_calls(self, kind, session):
        """Return how often MemoryX was asked for something in a session."""
        calls = [each for each in self.job.weight.calls if isinstance(each, kind)]
        return sum(each.session == session for each in calls)

    def close(self):
        self.channel.close()
        self.link.close()


@pytest.fixture
def client(tmp_path):
    job = PlayedJob(tmp_path, num_systems=1, workers=1)
    client = Repeating(job, job.address)
    yield client
    client.close()
    job.close()


def deferred(name, value, shape, kind):
    dtype = {RtFxProto.T_F16: np.float16, RtFxProto.T_I64: np.int64}[kind]
    tensor = pb.SendDeferredInputRequest.Tensor(tensor_name=name, dtype=kind, shape=shape)
    tensor.scalar_broadcast_tensor.value.dtype = kind
    tensor.scalar_broadcast_tensor.value.scalar.data = dtype(value).tobytes()
    return tensor


def load_request(client):
    request = pb.CompileRequest(
        cirh_content=PROGRAM, num_csx=1, num_workers_per_csx=1, batch_size=4, compile_dir="models"
    )
    return pb.LoadRequest(cache_compile_dir=client.stub.UnaryCompile(request).cache_compile_dir)


def train(client, session, weights):
    """Run a session of which every call is answered twice; the same program as ever."""
    load, num_calls = load_request(client), client.num_calls
    client.call("UnaryLoad", load, until=lambda: num_calls(pods_pb2.LoadRequest, session) > 0)
    assert num_calls(pods_pb2.LoadRequest, session) == 1
    inputs = client.job.pods[Role.WORKER, 0].calls
    before = len(inputs)
    run = pb.RunRequest(num_iterations=2, activation_freq=1)
    client.call("UnaryRun", run, until=lambda: len(inputs) > before)
    assert len(inputs) == before + 1
    weights()
    client.call(
        "UnaryStartStreaming",
        pb.StartStreamingRequest(),
        until=lambda: num_calls(pods_pb2.StartRequest, session) > 0,
    )
    assert num_calls(pods_pb2.StartRequest, session) == 1
    output = pb.GetOutputRequest(iteration=1, tensor_name="output_loss")
    (message,) = client.stub.GetOutputStream(output)
    assert np.frombuffer(message.rtfx_proto.tensor.data, np.float32) == 1.5
    client.call(
        "UnaryFinalize",
        pb.FinalizeRequest(),
        until=lambda: num_calls(pods_pb2.FinishRequest, session) > 0,
    )
    assert num_calls(pods_pb2.FinishRequest, session) == 1


def test_every_call_of_two_sessions_can_be_repeated(client):
    persistent, names = client.job.weight.persistent, {"state.w": 11, "state.n": 12}

    def send():
        tensors = [
            deferred("state.w", 1.0, (2, 3), RtFxProto.T_F16),
            deferred("state.n", 7, (), RtFxProto.T_I64),
        ]
        request = pb.SendDeferredInputRequest(tensors=tensors)
        written = client.job.coordinator._execution.session.ingress
        client.call("UnarySendDeferredInput", request, until=lambda: len(written.written) == 2)

    def carry_over():
        for name, number in names.items():
            request = pb.CarryOverFromPTRRequest(tensor_name=name, ptid=number)
            client.call(
                "UnaryCarryOverFromPTR",
                request,
                until=lambda number=number: number not in persistent,
            )

    train(client, 1, send)
    for name, number in names.items():
        client.call(
            "UnaryMoveToPTR",
            pb.MoveToPTRRequest(tensor_name=name, ptid=number),
            until=lambda number=number: number in persistent,
        )
    train(client, 2, carry_over)


def test_a_refusal_is_repeated_too_and_a_new_call_is_not_taken_for_a_repeat(client):
    wrong = pb.LoadRequest(cache_compile_dir="/nowhere")
    answers = [client.stub.UnaryLoad(wrong) for _ in range(2)]
    assert answers[0].message == answers[1].message != ""
    load = load_request(client)
    assert client.stub.UnaryLoad(load).code == StatusCode.WS_RT_SUCCESS
    again = client.stub.UnaryLoad(load)
    assert again.message.startswith("A job cannot load while session 1 is loaded.")
