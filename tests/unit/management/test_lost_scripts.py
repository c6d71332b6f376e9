"""What becomes of the jobs of a detached run whose driver has lost its pod."""

import pytest

from appliance.cluster.launcher import PodExit
from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.ids import PodName, Role, WorkflowId
from tests.support.appliance_process import wait_for
from tests.support.management import make_model, new_job, opened_state
from tests.support.reconciling import Harness


def run(harness, name, **changes):
    job = harness.submit(new_job(name, **changes))
    wait_for(lambda: harness.jobs.load(job).phase is Phase.INITIALIZING)
    return job


@pytest.mark.parametrize("revival", ["again", ""])
def test_what_a_lost_driver_s_script_has_submitted_ends_before_it_is_started_again(
    tmp_path, revival
):
    with opened_state(tmp_path, SystemClock()) as state:
        harness = Harness(
            state, make_model(state, num_systems=2), pod_lost=lambda job, end: revival
        )
        harness.reconciler.start()
        driver = harness.submit(new_job("wsjob-d", type=JobType.DRIVER, num_systems=0))
        member = run(harness, "wsjob-m", num_systems=1)
        other = run(harness, "wsjob-o", num_systems=1, workflow=WorkflowId("wflow-2"))
        waiting = harness.submit(new_job("wsjob-w", num_systems=2))
        end = PodExit(
            job=driver,
            pod=PodName("wsjob-d-driver-0"),
            role=Role.DRIVER,
            exit_code=137,
            signal=9,
        )
        harness.launcher.exits.put(end)
        for job in (member, waiting):
            wait_for(lambda job=job: harness.jobs.load(job).phase is Phase.CANCELLED)
            assert "wsjob-d" in harness.jobs.load(job).message
            assert "killed by signal 9" in harness.jobs.load(job).message
        wait_for(lambda: harness.launcher.launched.count(driver) == (2 if revival else 1))
        assert not harness.jobs.load(other).phase.is_terminal
        harness.reconciler.close()
