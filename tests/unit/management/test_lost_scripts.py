"""What becomes of the jobs of a detached run whose driver has lost its pod."""

import pytest

from appliance.cluster.launcher import PodExit
from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.ids import PodName, Role, WorkflowId
from tests.support.appliance_process import wait_for
from tests.support.management import make_model, new_job, opened_state
from tests.support.reconciling import Desk


def run(desk, name, **changes):
    job = desk.submit(new_job(name, **changes))
    wait_for(lambda: desk.jobs.load(job).phase is Phase.INITIALIZING)
    return job


@pytest.mark.parametrize("revival", ["again", ""])
def test_what_a_lost_driver_s_script_has_submitted_ends_before_it_is_started_again(
    tmp_path, revival
):
    with opened_state(tmp_path, SystemClock()) as state:
        desk = Desk(
            state, make_model(state, num_systems=2), pod_lost=lambda job, code, reason: revival
        )
        desk.reconciler.start()
        driver = desk.submit(new_job("wsjob-d", type=JobType.DRIVER, num_systems=0))
        member = run(desk, "wsjob-m", num_systems=1)
        other = run(desk, "wsjob-o", num_systems=1, workflow=WorkflowId("wflow-2"))
        waiting = desk.submit(new_job("wsjob-w", num_systems=2))
        end = PodExit(
            job=driver,
            pod=PodName("wsjob-d-driver-0"),
            role=Role.DRIVER,
            exit_code=137,
            signal=9,
        )
        desk.launcher.exits.put(end)
        for job in (member, waiting):
            wait_for(lambda job=job: desk.jobs.load(job).phase is Phase.CANCELLED)
            assert "wsjob-d" in desk.jobs.load(job).message
            assert "killed by signal 9" in desk.jobs.load(job).message
        wait_for(lambda: desk.launcher.launched.count(driver) == (2 if revival else 1))
        assert not desk.jobs.load(other).phase.is_terminal
        desk.reconciler.close()
