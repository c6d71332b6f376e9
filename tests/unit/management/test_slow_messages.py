"""A message that does not come in time ends its call with a sentence, and nothing else does."""

import asyncio
import time

import pytest

from appliance.core.errors import TooSlowError
from appliance.management.access.allowances import NUM_PLACES
from appliance.management.rpc import rpc_edge
from appliance.management.rpc.rpc_edge import RpcEdge, _read_within, _Reader, _stream_of


class Context:
    """Of a call whose message comes once it is sent."""

    def __init__(self):
        self.sent = asyncio.get_running_loop().create_future()

    async def read(self):
        return await self.sent


def test_a_message_that_comes_is_returned():
    async def run():
        context = Context()
        context.sent.set_result("message")
        return await _read_within(context, 60)

    assert asyncio.run(run()) == "message"


def test_a_message_that_takes_too_long_is_refused_and_the_task_goes_on():
    async def run():
        with pytest.raises(TooSlowError, match="has not arrived within 0 seconds"):
            await _read_within(Context(), 0.001)
        task = asyncio.current_task()
        await asyncio.sleep(0)
        return task.cancelling()

    assert asyncio.run(run()) == 0


@pytest.mark.parametrize("seconds", [60, 0])
def test_a_call_that_somebody_cancels_is_cancelled_also_at_the_end_of_its_time(seconds):
    async def run():
        reading = asyncio.create_task(_read_within(Context(), seconds))
        await asyncio.sleep(0)
        if seconds == 0:
            asyncio.get_running_loop().call_soon(reading.cancel)  # beside the timer's own
        else:
            reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(run())


class Calls:
    """Calls of one connection whose caller has proved nothing, or of a user."""

    def __init__(self, monkeypatch, *, is_stranger):
        monkeypatch.setattr(rpc_edge, "_STRANGER_SECONDS", 0.01)
        self.edge = RpcEdge(None, None, None, None)
        self.reader = _Reader("somebody", is_stranger=is_stranger)

    def read(self, context):
        return asyncio.create_task(self.edge._one(None, context, self.reader, limit=0))


def test_a_caller_who_has_proved_nothing_holds_no_place_and_no_call_by_sending_nothing(monkeypatch):
    async def run():
        calls = Calls(monkeypatch, is_stranger=True)
        silent = [calls.read(Context()) for _ in range(NUM_PLACES + 100)]
        done, waiting = await asyncio.wait(silent, timeout=60)
        assert not waiting
        assert {type(each.exception()) for each in done} == {TooSlowError}
        last = Context()
        last.sent.set_result("message")
        return await calls.read(last)

    assert asyncio.run(run()) == "message"


def test_a_stream_that_sends_nothing_ends_but_not_before_a_clients_first_beat(monkeypatch):
    assert rpc_edge._FIRST_SECONDS >= 3 * 10  # the client sleeps before it, on a machine in use
    monkeypatch.setattr(rpc_edge, "_FIRST_SECONDS", 0.1)

    async def nothing():
        await asyncio.get_running_loop().create_future()
        yield

    async def run():
        calls = Calls(monkeypatch, is_stranger=True)
        messages = await _stream_of(nothing(), None, calls.reader)
        began = time.monotonic()
        with pytest.raises(TooSlowError, match="Nothing has come for 0 seconds"):
            await anext(messages)
        assert time.monotonic() - began > 0.09  # and not after a stranger's 0.01

    asyncio.run(run())


def test_a_user_waits_for_a_place_as_long_as_it_takes(monkeypatch):
    async def run():
        calls = Calls(monkeypatch, is_stranger=False)
        contexts = [Context() for _ in range(NUM_PLACES + 1)]
        reading = [calls.read(each) for each in contexts]
        await asyncio.sleep(0.05)
        assert not any(each.done() for each in reading)
        for each in contexts:
            each.sent.set_result("message")
        return set(await asyncio.gather(*reading))

    assert asyncio.run(run()) == {"message"}
