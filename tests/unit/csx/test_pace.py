import threading

from tests.support.clock import FakeClock
from workers.csx.pace import Pace


def test_the_lead_is_what_the_steps_should_have_taken_less_what_they_took() -> None:
    clock = FakeClock()
    pace = Pace(2.0, clock)
    clock.advance(100.0)
    pace.begin()
    clock.advance(1.5)
    assert pace.lead_seconds(1) == 0.5
    assert pace.lead_seconds(3) == 4.5


def test_a_late_step_is_made_up_for_and_never_waited_for() -> None:
    clock = FakeClock()
    pace = Pace(2.0, clock)
    clock.advance(3.0)
    assert pace.wait(1) == 0.0
    clock.advance(0.5)
    assert pace.lead_seconds(2) == 0.5


def test_without_a_pace_nothing_is_waited_for() -> None:
    assert Pace(0.0, FakeClock()).wait(1000) == 0.0


def test_closing_wakes_who_waits() -> None:
    pace = Pace(3600.0, FakeClock())
    thread = threading.Thread(target=pace.wait, args=(1,))
    thread.start()
    pace.close()
    thread.join(120.0)
    assert not thread.is_alive()
