"""A message that does not come in time ends its call with a sentence, and nothing else does."""

import asyncio

import pytest

from appliance.core.errors import TooSlowError
from appliance.management.rpc.rpc_edge import _read_within


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
