"""A pod reads nothing of who may not call it, and nothing too long of who may."""

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from appliance.pods.client.client_check import SMALL_BYTES, ClientCheck

AUTHORITY = "wsjob-a-coordinator-0-secret.cluster-server"
SECONDS = 60


class Echo(grpc.GenericRpcHandler):
    def __init__(self):
        self.lengths = []

    def service(self, call):
        name = call.method.rpartition("/")[2]

        def one(request, context):
            self.lengths.append(len(request))
            return request[:3]

        if name in ("Small", "Large"):
            return grpc.unary_unary_rpc_method_handler(one)
        if name == "Told":
            return grpc.unary_stream_rpc_method_handler(lambda r, c: iter([r, r]))
        return grpc.stream_unary_rpc_method_handler(lambda rs, c: b"".join(rs))


@pytest.fixture
def pod():
    check, echo = ClientCheck(AUTHORITY, {"Large": 20 << 20}), Echo()
    server = grpc.server(
        ThreadPoolExecutor(2),
        interceptors=[check],
        options=[("grpc.max_receive_message_length", 1 << 28)],
    )
    server.add_generic_rpc_handlers((echo,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port, echo
    server.stop(0).wait()


def channel(port, authority):
    options = [
        ("grpc.default_authority", authority),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
    ]
    return grpc.insecure_channel(f"127.0.0.1:{port}", options)


def test_the_client_s_calls_of_every_kind_are_answered(pod):
    port, _ = pod
    with channel(port, AUTHORITY) as mine:
        assert mine.unary_unary("/s/Small")(b"hello", timeout=SECONDS) == b"hel"
        assert list(mine.unary_stream("/s/Told")(b"a", timeout=SECONDS)) == [b"a", b"a"]
        assert mine.stream_unary("/s/Sum")(iter([b"a", b"b"]), timeout=SECONDS) == b"ab"


def test_a_message_is_as_long_as_its_method_takes(pod):
    port, echo = pod
    long = bytes(SMALL_BYTES + 1)
    with channel(port, AUTHORITY) as mine:
        assert mine.unary_unary("/s/Large")(long, timeout=SECONDS) == bytes(3)
        with pytest.raises(grpc.RpcError) as refused:
            mine.unary_unary("/s/Small")(long, timeout=SECONDS)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "16,777,217 bytes" in refused.value.details()
    with channel(port, AUTHORITY) as mine, pytest.raises(grpc.RpcError) as refused:
        mine.unary_unary("/s/Large")(bytes(21 << 20), timeout=SECONDS)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "20,971,520 bytes" in refused.value.details()
    assert echo.lengths == [SMALL_BYTES + 1]


def test_a_stranger_is_refused_before_anything_of_his_message_is_read(pod):
    """He opens more calls than there are threads, sends nothing, and is answered all the same."""
    port, echo = pod
    begun = threading.Event()

    def never():
        begun.set()
        threading.Event().wait(SECONDS)
        yield b""

    with channel(port, "wsjob-a-coordinator-0-guess.cluster-server") as other:
        calls = [other.stream_unary("/s/Small").future(never(), timeout=SECONDS) for _ in range(5)]
        for call in calls:
            assert call.exception(timeout=SECONDS).code() is grpc.StatusCode.PERMISSION_DENIED
    with channel(port, AUTHORITY) as mine:
        assert mine.unary_unary("/s/Small")(b"hello", timeout=SECONDS) == b"hel"
    assert begun.is_set()
    assert echo.lengths == [5]
