"""Whoever cancels a job is told what became of it, and the job tells who cancelled it and how."""

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.errors import ConflictError
from appliance.core.ids import JobId
from appliance.management.jobs.job_service import cancelled_by
from appliance.management.rpc.csctl_servicer import cancel_answer

JOB = JobId("wsjob-a")


def test_a_cancelled_job_is_said_to_be_cancelled():
    assert cancel_answer(JOB, Phase.CANCELLED) == "Job canceled successfully"


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_a_job_that_ended_otherwise_is_not(phase):
    with pytest.raises(ConflictError, match=f"wsjob-a was not canceled: it is {phase.value}"):
        cancel_answer(JOB, phase)


@pytest.mark.parametrize("phase", [each for each in Phase if not each.is_terminal])
def test_a_job_that_takes_long_to_end_is_said_to_be_still_there(phase):
    assert f"is being canceled and still {phase.value}" in cancel_answer(JOB, phase)


def test_who_cancelled_and_how_is_told():
    assert cancelled_by("root", "over REST") == "cancelled by root over REST"
    assert cancelled_by("", "with csctl") == "cancelled by a user with csctl"
