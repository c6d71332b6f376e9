"""The unmodified client on several MemoryX shards, as `ClusterConfig(max_wgt_servers=N)` asks."""

import os
import signal
from pathlib import Path

import pytest

from tests.conformance.test_real_client_failures import (
    assert_no_pod_is_left,
    newest_job,
    phase,
    pods,
    start_training,
)
from tests.conformance.test_real_client_training import state_of
from tests.support.appliance import Appliance
from tests.support.client import losses, start_client
from tests.support.processes import command_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]


def test_two_weight_servers_give_the_losses_and_the_checkpoint_of_one(
    appliance: Appliance, tmp_path: Path
) -> None:
    """Evaluation has no optimizer, so its tensors are placed anew and some change their shard."""
    results = {}
    for servers in (1, 2):
        work = tmp_path / str(servers)
        run = start_client(
            work,
            *("--model", "gpt_adamw", "--steps", "2", "--train-eval-train-eval"),
            *("--max-wgt-servers", str(servers), "--save", str(work / "{step}.mdl")),
            address=appliance.address,
        )
        result = run.result()
        results[servers] = losses(result), state_of(result["checkpoints"][-1]["path"])
        job = newest_job(appliance, "execute")["meta"]["name"]
        story = appliance.csctl("get", "job", job, "-o", "yaml")
        assert f"{job}-weight-{servers - 1}" in story
        assert f"weight-{servers}" not in story
    assert results[2][0] == results[1][0]
    for name, tensor in results[1][1].items():
        assert tensor.tobytes() == results[2][1][name].tobytes(), name


def test_the_loss_of_one_shard_fails_the_job_with_its_name(
    appliance: Appliance, tmp_path: Path
) -> None:
    run, job = start_training(appliance, tmp_path, "--max-wgt-servers", "2")
    name = f"{job}-weight-1"
    (victim,) = (
        process
        for process in pods(appliance, job, "weight")
        if any(name in word for word in command_of(process))
    )
    os.kill(victim.pid, signal.SIGKILL)
    wait_until(lambda: phase(appliance, job) == "FAILED", seconds=120, what="FAILED")
    story = appliance.csctl("get", "job", job, "-o", "yaml")
    assert name in story
    assert "signal 9" in story
    assert run.wait() != 0
    assert_no_pod_is_left(appliance)
