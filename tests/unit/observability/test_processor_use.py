"""How many processors this process is seen to use."""

import time

from appliance.observability.processor_use import ProcessorUse
from tests.support.clock import FakeClock


def test_processor_time_is_divided_by_the_time_between_two_looks(monkeypatch):
    clock, used = FakeClock(), iter((10.0, 13.0, 14.0, 14.5))
    monkeypatch.setattr(time, "process_time", lambda: next(used))
    use = ProcessorUse(clock)
    clock.advance(2)
    assert use.since_last() == 1.5
    assert use.since_last() == 0.0  # no time has passed; what was used counts for the next look
    clock.advance(3)
    assert use.since_last() == 0.5
