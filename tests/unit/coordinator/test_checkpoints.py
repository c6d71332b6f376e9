"""Checkpoints in a job's list of events: each once, when the client has fetched all of it."""

from appliance.coordinator.weights.checkpoints import Checkpoints


def told_of(*calls):
    told = []
    checkpoints = Checkpoints(told.append)
    for call, *arguments in calls:
        getattr(checkpoints, call)(*arguments)
    assert all(event.reason == "Checkpoint" and not event.is_warning for event in told)
    return [event.message for event in told]


def test_a_checkpoint_is_told_of_when_the_client_goes_on():
    fetched = [("go_on", 1, 20), ("note", 1, 20, 4096), ("go_on", 1, 20), ("note", 1, 20, 4096)]
    assert told_of(*fetched) == []
    words = "session 1, step 20: the client has fetched 2 tensors, 8.19 kB"
    for left in (("go_on", 1, 21), ("go_on", 2, 20), ("go_on",)):
        assert told_of(*fetched, left, left) == [words]


def test_each_checkpoint_is_counted_by_itself():
    calls = [
        ("note", 1, 2, 1000),
        ("go_on", 1, 3),
        ("go_on", 1, 4),
        ("note", 1, 4, 3000),
        ("go_on",),
    ]
    assert [message[:17] for message in told_of(*calls)] == [
        "session 1, step 2",
        "session 1, step 4",
    ]
    assert told_of(*calls)[1].endswith("1 tensors, 3 kB")


def test_outputs_alone_are_no_checkpoint():
    assert told_of(("go_on", 1, 1), ("go_on", 1, 2), ("go_on",)) == []
