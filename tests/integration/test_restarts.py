"""A management that takes the place of one that was killed is found where that one was."""

import socket

import pytest

from tests.support.appliance_process import (
    ApplianceProcess,
    pods_of,
    run_command,
    running_appliance,
    wait_for,
    wait_pods,
)

pytestmark = pytest.mark.slow


def start(appliance: ApplianceProcess) -> str:
    job = appliance.submit_execute()
    assert appliance.wait_ready(job)[-1].is_ready
    return job


def test_any_port_is_the_same_port_again_after_a_kill(tmp_path):
    with running_appliance(tmp_path / "data") as appliance:
        job = start(appliance)
        pods = wait_pods(job, 6)
        before, client = appliance.state, appliance.cluster
        appliance.kill_management()
        appliance.up()
        assert appliance.state.ports == before.ports
        assert (appliance.state.address, appliance.state.rest_url) == (
            before.address,
            before.rest_url,
        )
        appliance.cluster = client  # that of before the kill
        assert appliance.wait_ready(job)[-1].is_ready
        assert pods_of(job) == pods


def test_a_start_that_cannot_have_its_port_names_it_and_leaves_the_jobs_alone(tmp_path):
    with running_appliance(tmp_path / "data") as appliance:
        job = start(appliance)
        pods = wait_pods(job, 6)
        state = appliance.state
        appliance.kill_management()
        up = ("up", "--data-dir", str(appliance.data_dir), "--port", "0", "--rest-port", "0")
        with socket.create_server(("127.0.0.1", state.ports.port)):
            answer = run_command(*up)
        assert answer.returncode == 3
        assert f"Port {state.ports.port}" in answer.stderr
        assert "appliance down --data-dir" in answer.stderr
        assert pods_of(job) == pods
        appliance.up()
        assert appliance.state.address == state.address
        assert appliance.wait_ready(job)[-1].is_ready
        assert pods_of(job) == pods
        appliance.down()
        wait_for(lambda: pods_of(job) == set(), what="the end of the pods")
        assert not (appliance.data_dir / "appliance.json").exists()
