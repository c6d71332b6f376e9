"""Waiting for input is told once with numbers, and ends the job only when it lasts too long."""

from appliance.coordinator.starvation import StarvationWatch
from appliance.core.cluster.readings import INPUT_WAIT, INPUT_WAIT_NOW


def look(watch, now, *, waited=0.0, waiting=0.0, step=1, system=0, session=1):
    return watch.look(
        system,
        session=session,
        step=step,
        readings={INPUT_WAIT: waited, INPUT_WAIT_NOW: waiting},
        now_seconds=now,
    )


def messages(watch, shares, *, session=1):
    """Return what is told while a system waits for a share of each second."""
    waited, found = 0.0, []
    for second, share in enumerate(shares):
        found.append(look(watch, 1000.0 + second, waited=waited, step=second, session=session))
        waited += share
    return [told.message for told in found if told is not None]


def test_a_system_that_waits_half_of_its_time_is_told_of_once_a_session() -> None:
    watch = StarvationWatch(stall_seconds=630)
    (message,) = messages(watch, [0.6] * 100)
    assert message == (
        "Input starvation detected: system 0 waited 18.0 of the last 30.0 s for its batches, "
        "30 steps into session 1."
    )
    assert len(messages(watch, [0.6] * 100, session=2)) == 1


def test_a_system_that_waits_less_is_left_in_peace() -> None:
    assert messages(StarvationWatch(stall_seconds=630), [0.4] * 200) == []


def test_a_system_that_begins_to_starve_late_is_noticed_within_the_window() -> None:
    assert len(messages(StarvationWatch(stall_seconds=630), [0.0] * 300 + [1.0] * 20)) == 1


def test_one_wait_beyond_the_limit_is_a_stall_in_the_words_of_the_real_cluster() -> None:
    watch = StarvationWatch(stall_seconds=630)
    assert look(watch, 0.0, waiting=630.0, waited=630.0, step=7) is None
    told = look(watch, 1.0, waiting=631.0, waited=631.0, step=7, system=0)
    assert told is not None
    assert told.is_stall
    assert told.message == (
        "Declaring stall due to input starvation, no change in status for 630 secs. System 0 has "
        "waited 631 s for the batch of step 8. Please check dataloader throughput."
    )
    assert look(watch, 2.0, waiting=632.0, waited=632.0, step=7) is None


def test_the_first_batch_may_take_as_long_as_it_likes() -> None:
    watch = StarvationWatch(stall_seconds=60)
    told = [look(watch, float(s), waiting=float(s), waited=float(s), step=0) for s in range(4000)]
    assert [found.is_stall for found in told if found is not None] == [False]


def test_systems_are_watched_apart() -> None:
    watch = StarvationWatch(stall_seconds=10)
    assert look(watch, 0.0, system=1) is None
    told = look(watch, 0.0, system=2, waiting=11.0, step=3)
    assert told is not None
    assert "System 2 has waited 11 s for the batch of step 4" in told.message
