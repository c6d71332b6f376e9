"""A job of the unmodified client shows what the masks of its weights let through and save."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.test_real_client_simulated_time import rest
from tests.support.appliance import Appliance, running_appliance
from tests.support.client import start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

STEPS = 3
COPIED = "wsc_swarmx_broadcast_copied_bytes"


def train(appliance: Appliance, tmp_path: Path, model: str) -> str:
    """Train a model; return the name of its execute job, the newest one."""
    start_client(
        tmp_path,
        *("--model", model, "--steps", str(STEPS), "--num-csx", "2"),
        config=Path(appliance.config_path),
    ).result()
    jobs = [job for job in appliance.jobs() if job["spec"]["type"] == "execute"]  # type: ignore[index]
    newest = max(jobs, key=lambda job: job["meta"]["createTime"])  # type: ignore[index]
    return str(newest["meta"]["name"])  # type: ignore[index]


@pytest.fixture
def copying(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance whose SwarmX copies what it broadcasts, and counts it."""
    with running_appliance(tmp_path / "data", "--systems", "2", "--streams", "ring") as made:
        yield made


def test_a_job_shows_density_saved_bytes_and_simulated_speedup(
    copying: Appliance, tmp_path: Path
) -> None:
    name = train(copying, tmp_path, "sparse_gpt")
    properties = json.loads(copying.csctl("get", "job", name, "-o", "json"))["meta"]["properties"]
    (session,) = rest(copying, f"/jobs/{name}/sessions")["items"]
    masked = session["masked_weights"]
    assert (masked["num_masked"], masked["num_elements"]) == (8, 6144)
    # Each has a third: `up` lets through a quarter, attention half, `down` three quarters at first
    # and an eighth less with every step.
    assert (masked["num_nonzeros"], masked["density"]) == (2304, 0.375)
    assert masked["num_sparse"] == 8
    assert masked["dense_because"] == {"the program changes its mask": 6}

    pods = rest(copying, f"/jobs/{name}")["pods"]
    copied = sum(pod["readings"].get(COPIED, 0) for pod in pods)
    least, most = masked["broadcast_bytes_per_step"], masked["dense_broadcast_bytes_per_step"]
    assert least * STEPS < copied < most * STEPS, "what SwarmX has counted"
    saved = masked["saved_broadcast_bytes_per_step"]
    assert saved == masked["dense_broadcast_bytes_per_step"] - masked["broadcast_bytes_per_step"]
    step, dense = masked["simulated_step_seconds"], masked["simulated_dense_step_seconds"]
    assert masked["simulated_sparse_speedup"] == pytest.approx(dense / step)
    assert step < dense
    assert step <= session["readings"]["simulated_step_seconds"] < dense, "by the first masks"
    wafer = rest(copying, f"/jobs/{name}/wafer")
    assert wafer["simulated_step_seconds"] == pytest.approx(step), "the picture shows the same"

    assert properties["masked_weights"] == masked["num_masked"]
    assert properties["sparse_weights"] == masked["num_sparse"]
    assert properties["weight_density"] == pytest.approx(masked["density"])
    assert properties["saved_broadcast_bytes_per_step"] == saved
    assert properties["simulated_sparse_speedup"] == pytest.approx(dense / step)
    assert properties["dense_weights_because"] == "6 weights: the program changes its mask"
    for text in (
        copying.csctl("get", "job", name),
        copying.csctl("get", "job", name, "--session", "1"),
    ):
        assert "Masked weights: 8 of 8 masked weights are streamed by their non-zeros" in text
        assert "Held whole: 6 weights: the program changes its mask." in text


def test_a_job_without_masked_weights_shows_nothing_of_them(
    appliance: Appliance, tmp_path: Path
) -> None:
    name = train(appliance, tmp_path, "mlp_sgd")
    (session,) = rest(appliance, f"/jobs/{name}/sessions")["items"]
    assert session["masked_weights"] is None
    assert "asked weights" not in appliance.csctl("get", "job", name)
    properties = json.loads(appliance.csctl("get", "job", name, "-o", "json"))["meta"]["properties"]
    assert not {"masked_weights", "weight_density", "simulated_sparse_speedup"} & set(properties)
