"""A call has the time that it was given, whatever happens to the wall clock."""

from concurrent import futures

import grpc
import grpc._channel
import pytest

from appliance.core.clock import SystemClock
from appliance.wire.deadlines import answered
from tests.support.clock import FakeClock


class Ended(grpc.RpcError):
    def __init__(self, code):
        super().__init__(code)
        self._code = code

    def code(self):
        return self._code


class Callee:
    """Ends its calls with these codes, then answers; each takes a second."""

    def __init__(self, clock, *codes, seconds=1.0):
        self.clock, self.codes, self.seconds = clock, list(codes), seconds
        self.timeouts = []

    def __call__(self, request, *, timeout, wait_for_ready):
        assert wait_for_ready
        self.timeouts.append(timeout)
        self.clock.advance(self.seconds)
        if self.codes:
            raise Ended(self.codes.pop(0))
        return request


def test_a_call_that_ends_too_early_has_the_rest_of_its_time():
    clock = FakeClock()
    early = [grpc.StatusCode.DEADLINE_EXCEEDED] * 2
    callee = Callee(clock, *early)
    told = answered(callee, "hello", seconds=60.0, clock=clock, wait_for_ready=True)
    assert told == "hello"
    assert callee.timeouts == [60.0, 59.0, 58.0]


def test_a_call_whose_time_is_over_and_one_that_is_refused_fail():
    clock = FakeClock()
    late = Callee(clock, *[grpc.StatusCode.DEADLINE_EXCEEDED] * 9, seconds=20.0)
    with pytest.raises(Ended):
        answered(late, "hello", seconds=60.0, clock=clock, wait_for_ready=True)
    assert late.timeouts == [60.0, 40.0, 20.0]
    refused = Callee(clock, grpc.StatusCode.PERMISSION_DENIED)
    with pytest.raises(Ended):
        answered(refused, "hello", seconds=60.0, clock=clock, wait_for_ready=True)
    assert len(refused.timeouts) == 1


def test_a_real_call_survives_a_clock_that_is_set_while_it_begins(monkeypatch):
    times = iter([-7200.0])
    real = grpc._channel.time.time
    monkeypatch.setattr(grpc._channel.time, "time", lambda: real() + next(times, 0.0))

    class Echo(grpc.GenericRpcHandler):
        def service(self, call):
            return grpc.unary_unary_rpc_method_handler(lambda request, context: request)

    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((Echo(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/a/b")
            told = answered(call, b"x", seconds=60.0, clock=SystemClock(), wait_for_ready=True)
            assert told == b"x"
            assert next(times, None) is None
    finally:
        server.stop(0)
