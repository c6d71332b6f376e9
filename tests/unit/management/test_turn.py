"""What follows from the events of a turn, and what does not."""

import pytest

from appliance.core.clock import SystemClock
from appliance.management.changes.watch import JobWatch
from appliance.management.reconciler.turn import Turn
from tests.support.management import opened_state


@pytest.fixture
def turn(tmp_path):
    with opened_state(tmp_path, SystemClock()) as state:
        yield Turn(state.database, JobWatch())


def fail():
    raise OSError("no space is left")


def test_an_effect_that_fails_does_not_keep_others_from_being_done(turn, caplog):
    done = []
    with turn.committed():
        turn.after_commit(fail)
        turn.after_commit(lambda: done.append("the next"))
        assert done == []
    assert done == ["the next"]
    assert "no space is left" in caplog.text


def test_nothing_follows_from_an_event_that_fails_and_others_of_its_turn_count(turn, caplog):
    done = []

    def half_way():
        turn.after_commit(lambda: done.append("of the failed one"))
        fail()

    with turn.committed():
        turn.guarded("the first", lambda: turn.after_commit(lambda: done.append(1)), restore=fail)
        turn.guarded("the second", half_way, restore=lambda: done.append("restored"))
        turn.guarded("the third", lambda: turn.after_commit(lambda: done.append(3)), restore=fail)
    assert done == ["restored", 1, 3]
    assert "An event was not taken in" in caplog.text


def test_nothing_follows_from_a_turn_that_is_not_committed(turn):
    done = []

    def interrupted():
        with turn.committed():
            turn.after_commit(lambda: done.append("told"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == []
