"""After which steps a session keeps outputs and state."""

import pytest

from appliance.core.cluster.run import RunSchedule


def schedule(num_steps, interval=0, checkpoints=()):
    return RunSchedule(
        num_steps=num_steps, output_interval=interval, checkpoint_steps=frozenset(checkpoints)
    )


@pytest.mark.parametrize(
    ("num_steps", "interval", "kept"),
    [
        (5, 0, [5]),
        (5, 1, [1, 2, 3, 4, 5]),
        (5, 2, [2, 4, 5]),
        (6, 3, [3, 6]),
        (5, 9, [5]),
        (1, 1, [1]),
    ],
)
def test_outputs_are_kept_at_every_multiple_and_at_the_end(num_steps, interval, kept):
    found = schedule(num_steps, interval)
    assert [step + 1 for step in range(num_steps) if found.keeps_outputs(step)] == kept


def test_state_is_kept_after_the_steps_that_are_named():
    found = schedule(5, 1, checkpoints=(1, 4))
    assert [step + 1 for step in range(5) if found.keeps_state(step)] == [1, 4]
    assert not any(schedule(5).keeps_state(step) for step in range(5))
