"""Who may no longer read a log hears no more of it, however much there is to tell."""

import asyncio
from types import SimpleNamespace

from appliance.api.job_routes.logs import _follow
from appliance.core.ids import JobId

BUSY_LINES = b"more\n" * 100


class Reader:
    """May read so many times."""

    def __init__(self, num_allowed: int) -> None:
        self.num_left = num_allowed

    async def is_allowed(self) -> bool:
        self.num_left -= 1
        return self.num_left >= 0


class BusyLog:
    """Always has more to tell."""

    async def read(self, _function, _path, offset, _is_over):
        return offset, BUSY_LINES


def test_a_log_that_never_pauses_is_read_no_further_than_its_reader_may(tmp_path) -> None:
    running = SimpleNamespace(phase=SimpleNamespace(is_terminal=False))
    services = SimpleNamespace(
        feed=SimpleNamespace(is_closed=False),
        jobs=SimpleNamespace(find=lambda _: running),
        logs=BusyLog(),
    )

    async def main() -> list[str]:
        heard = []
        events = _follow(services, JobId("wsjob-1"), tmp_path, 0, Reader(3))
        async with asyncio.timeout(60):
            async for event in events:
                heard.append(event)
                if len(heard) > 10:
                    break
        return heard

    assert ["event: lines" in event for event in asyncio.run(main())] == [False, True, True, True]
