"""The unmodified client's program with all weights on the wafer, against weight streaming."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.conformance.test_real_client_micro_batches import machine_file
from tests.support.appliance import running_appliance
from tests.support.client import losses, start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

TRAINING = ("--model", "gpt_adamw", "--steps", "3", "--num-csx", "2")


def test_pipelined_and_weight_streaming_runs_of_a_gpt_agree(tmp_path: Path) -> None:
    found = {}
    with running_appliance(tmp_path / "data", "--systems", "2", "--execution", "auto") as appliance:
        for execution, label in (
            ("weight-streaming", ("--job-label", "wsc.execution=weight-streaming")),
            ("pipelined", ()),
        ):
            run = start_client(tmp_path / execution, *TRAINING, *label, address=appliance.address)
            found[execution] = losses(run.result())
        (last, first) = [
            json.loads(appliance.csctl("get", "job", str(job["meta"]["name"]), "-o", "json"))  # type: ignore[index]
            for job in appliance.jobs()
            if job["spec"]["type"] == "execute"  # type: ignore[index]
        ]
    executions = {
        job["meta"]["properties"]["execution"]: job["meta"]["properties"] for job in (first, last)
    }
    assert set(executions) == set(found)
    assert float(executions["pipelined"]["simulated_step_seconds"]) > 0
    np.testing.assert_allclose(found["pipelined"], found["weight-streaming"], rtol=1e-6)


def test_a_network_that_does_not_fit_one_wafer_is_not_pipelined(tmp_path: Path) -> None:
    machine = machine_file(tmp_path, kilobytes=100)
    with running_appliance(
        tmp_path / "data", "--machine", str(machine), "--execution", "pipelined"
    ) as appliance:
        run = start_client(
            tmp_path / "run", "--model", "gpt_adamw", "--steps", "3", address=appliance.address
        )
        assert run.wait() != 0
    text = run.text()
    assert "Pipelined execution needs" in text
    assert "one system has 102,400. The largest tensor is" in text
