"""A client is told why its job failed, unless its own text says so already."""

import pytest

from appliance.core.errors import ConflictError
from appliance.core.ids import JobId
from appliance.management.rpc.client.reported_failures import require_told, tells

REASON = (
    "job has failed because total 1 replica(s) failed, first failed pods: "
    "[wsjob-abc-coordinator-0]: was killed by signal 9"
)


@pytest.mark.parametrize(
    ("told", "reason", "is_told"),
    [
        ("Ran into error while receiving tensor output_loss", REASON, False),
        (f"Error detected in CRD #0. Status message: {REASON}.", REASON, True),
        ("wsjob-abc-coordinator-0 is gone", REASON, True),
        (
            "Failed: Job time LIMIT reached, it has run for 3 seconds!",
            "job time limit reached",
            True,
        ),
        ("Socket closed", "job time limit reached: it has run for 3 seconds", False),
        ("the sample file is damaged\n  in line 3", "the sample file is damaged\nTraceback", True),
        ("whatever the client says", "", True),
    ],
)
def test_a_text_tells_a_reason_if_it_names_its_pod_or_holds_its_first_line(told, reason, is_told):
    assert tells(told, reason) is is_told


@pytest.mark.parametrize("told", ["", "None", REASON])
def test_a_client_that_says_the_reason_or_none_is_told_nothing(told):
    require_told(JobId("wsjob-abc"), told, REASON)


def test_a_client_that_says_something_else_is_told_the_reason():
    with pytest.raises(
        ConflictError, match=r"wsjob-abc had failed already\. .*killed by signal 9$"
    ):
        require_told(JobId("wsjob-abc"), "Stream removed (Socket closed)", REASON)
