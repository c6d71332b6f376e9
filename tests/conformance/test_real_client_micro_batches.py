"""The unmodified client on wafers too small for its program, and with its own micro-batch."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.appliance import Appliance, running_appliance
from tests.support.client import ClientRun, losses, start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

TRAINING = ("--model", "gpt_adamw", "--steps", "3")


@pytest.fixture(scope="module")
def want(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Losses of the client's CPU backend."""
    return losses(start_client(tmp_path_factory.mktemp("cpu"), *TRAINING).result())


def machine_file(directory: Path, *, kilobytes: int) -> Path:
    """Describe a machine of PEs that have one kilobyte each beside code and buffers."""
    path = directory / "machine.yaml"
    table = {
        "name": "Small",
        "num_pes": kilobytes,
        "grid_width": 1,
        "grid_height": kilobytes,
        "sram_bytes_per_pe": 6 * 1024,
    }
    path.write_text(json.dumps(table))
    return path


def micro_batch_size(appliance: Appliance) -> int | None:
    """Return that of the one plan that was compiled."""
    (plan,) = (appliance.data_dir / "compile").rglob("plan.txt")
    head = json.loads(plan.read_text().splitlines()[0].removeprefix("plan "))
    size: int | None = head["micro_batch_size"]
    return size


def train(appliance: Appliance, directory: Path, *arguments: str) -> ClientRun:
    return start_client(directory / "run", *TRAINING, *arguments, address=appliance.address)


def test_a_gpt_of_one_and_a_half_wafers_trains_in_micro_batches(
    tmp_path: Path, want: list[float]
) -> None:
    machine = machine_file(tmp_path, kilobytes=12)
    with running_appliance(tmp_path / "data", "--machine", str(machine)) as appliance:
        found = losses(train(appliance, tmp_path).result())
        assert micro_batch_size(appliance) == 2
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_a_gpt_of_which_no_sample_fits_is_refused_with_its_largest_tensor(tmp_path: Path) -> None:
    machine = machine_file(tmp_path, kilobytes=5)
    with running_appliance(tmp_path / "data", "--machine", str(machine)) as appliance:
        run = train(appliance, tmp_path)
        assert run.wait() != 0
    text = run.text()
    assert "One sample at a time needs 5,376 bytes of wafer memory; one system has 5,120" in text
    assert "The largest tensor is %" in text
    assert "with 1,024 bytes, made by GeluGrad in blocks.1.down.bwd (" in text


def test_the_micro_batch_that_the_user_sets_is_used(tmp_path: Path, want: list[float]) -> None:
    with running_appliance(tmp_path / "data") as appliance:
        found = losses(train(appliance, tmp_path, "--micro-batch-size", "3").result())
        assert micro_batch_size(appliance) == 3
    np.testing.assert_allclose(found, want, rtol=1e-5)
