"""Messages of one caller are read a few at a time, and nobody waits for another caller's."""

import asyncio

import pytest

from appliance.management.access.allowances import ReadingPlaces


def test_a_caller_waits_for_their_own_messages_alone():
    async def run():
        places, order = ReadingPlaces(1), []

        async def read(caller, gate):
            if not places.take(caller):
                await places.wait(caller)
            order.append(caller)
            await gate.wait()
            places.give_back(caller)

        gates = [asyncio.Event() for _ in range(3)]
        callers = ("ada", "ada", "eve")
        tasks = [asyncio.create_task(read(*each)) for each in zip(callers, gates, strict=True)]
        await asyncio.sleep(0)
        assert order == ["ada", "eve"]
        gates[0].set()
        await tasks[0]
        await asyncio.sleep(0)
        assert order == ["ada", "eve", "ada"]
        gates[1].set()
        gates[2].set()
        await asyncio.gather(*tasks)
        return places

    assert asyncio.run(run())._num_taken == {}


@pytest.mark.parametrize("is_given", [False, True], ids=["while it waits", "with its turn"])
def test_a_call_that_is_left_takes_no_place_with_it(is_given):
    async def run():
        places = ReadingPlaces(1)
        assert places.take("ada")
        left = asyncio.create_task(places.wait("ada"))
        await asyncio.sleep(0)
        if is_given:
            places.give_back("ada")
            left.cancel()
        else:
            left.cancel()
            await asyncio.sleep(0)
            places.give_back("ada")
        with pytest.raises(asyncio.CancelledError):
            await left
        assert places.take("ada")

    asyncio.run(run())
