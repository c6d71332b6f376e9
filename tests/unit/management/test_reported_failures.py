"""A client is told why its job failed, unless its own text says so already."""

import pytest

from appliance.management.rpc.client.reported_failures import tells

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
