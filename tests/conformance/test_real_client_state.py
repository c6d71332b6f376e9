"""Checkpoints, persistent tensors and data order, seen by the unmodified client."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conformance.test_real_client_training import state_of
from tests.support.appliance import Appliance
from tests.support.client import losses, start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

SHUFFLED = ("--model", "gpt_adamw", "--num-csx", "2", "--loader", "restartable", "--shuffle")


def test_three_and_three_steps_over_a_checkpoint_equal_six(
    appliance: Appliance, tmp_path: Path
) -> None:
    def train(name: str, *arguments: str) -> tuple[list[float], str]:
        work = tmp_path / name
        saved = str(work / "{step}.mdl")
        run = start_client(work, *SHUFFLED, "--save", saved, *arguments, address=appliance.address)
        result = run.result()
        return losses(result), result["checkpoints"][-1]["path"]

    whole, whole_checkpoint = train("whole", "--steps", "6")
    first, checkpoint = train("first", "--steps", "3")
    second, last_checkpoint = train("second", "--steps", "3", "--load", checkpoint)
    assert first + second == whole
    whole_state, last_state = state_of(whole_checkpoint), state_of(last_checkpoint)
    for name, tensor in whole_state.items():
        assert tensor.tobytes() == last_state[name].tobytes(), name


@pytest.mark.parametrize("model", ["gpt_adamw", "sparse_gpt"])
def test_train_eval_train_eval_in_one_process_uses_one_execute_job(
    model: str, appliance: Appliance, tmp_path: Path
) -> None:
    # Two steps, since the masks of `sparse_gpt` are empty after six, where the client's program on
    # systems keeps one element and its CPU backend none.
    arguments = ("--model", model, "--steps", "2", "--train-eval-train-eval")
    before = {job["meta"]["name"] for job in appliance.jobs()}
    run = start_client(tmp_path / "csx", *arguments, address=appliance.address)
    want = start_client(tmp_path / "cpu", *arguments).result()
    np.testing.assert_allclose(losses(run.result()), losses(want), rtol=1e-5)
    new = [job for job in appliance.jobs() if job["meta"]["name"] not in before]
    assert [job["spec"]["type"] for job in new].count("execute") == 1


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_batch_that_the_systems_do_not_divide(
    num_workers: int, appliance: Appliance, tmp_path: Path
) -> None:
    arguments = ("--model", "mlp_sgd", "--steps", "4", "--batch-size", "8")
    want = start_client(tmp_path / "cpu", *arguments).result()
    run = start_client(
        tmp_path / "csx",
        *arguments,
        *("--num-csx", "3", "--num-workers-per-csx", str(num_workers)),
        address=appliance.address,
    )
    np.testing.assert_allclose(losses(run.result()), losses(want), rtol=1e-5)


def test_dropout_keeps_its_rate_and_repeats_with_its_seed(
    appliance: Appliance, tmp_path: Path
) -> None:
    def train(name: str, num_csx: int) -> list[float]:
        run = start_client(
            tmp_path / name,
            *("--model", "dropout", "--steps", "4", "--num-csx", str(num_csx)),
            address=appliance.address,
        )
        result = run.result()
        return losses(result)

    first, again, two = train("first", 1), train("again", 1), train("two", 2)
    assert first == again
    np.testing.assert_allclose(first, two, rtol=1e-6)


def test_a_second_session_draws_the_masks_of_an_uninterrupted_run(
    appliance: Appliance, tmp_path: Path
) -> None:
    def train(name: str, *arguments: str) -> list[dict[str, Any]]:
        arguments = ("--model", "dropout", *arguments)
        run = start_client(tmp_path / name, *arguments, address=appliance.address)
        phases: list[dict[str, Any]] = run.result()["phases"]
        return phases

    (whole,) = train("whole", "--steps", "6")
    first, _, second, _ = train("parts", "--steps", "3", "--train-eval-train-eval")
    assert first["losses"] + second["losses"] == whole["losses"]
    for name in ("mean", "kept"):
        assert first["outputs"][name] + second["outputs"][name] == whole["outputs"][name]


def test_a_resumed_process_draws_the_masks_of_an_uninterrupted_run(
    appliance: Appliance, tmp_path: Path
) -> None:
    def train(name: str, *arguments: str) -> tuple[list[float], str]:
        saved = str(tmp_path / name / "{step}.mdl")
        common = ("--model", "dropout_adamw", "--loader", "restartable", "--save", saved)
        run = start_client(tmp_path / name, *common, *arguments, address=appliance.address)
        result = run.result()
        return losses(result), result["checkpoints"][-1]["path"]

    whole, whole_checkpoint = train("whole", "--steps", "6")
    first, checkpoint = train("first", "--steps", "3")
    second, last_checkpoint = train("second", "--steps", "3", "--load", checkpoint)
    assert first + second == whole
    whole_state, last_state = state_of(whole_checkpoint), state_of(last_checkpoint)
    for name, tensor in whole_state.items():
        assert tensor.tobytes() == last_state[name].tobytes(), name


def test_compile_only_leaves_a_compile_that_the_next_run_hits(
    appliance: Appliance, tmp_path: Path
) -> None:
    arguments = ("--model", "mlp_momentum", "--steps", "2", "--compile-dir", "prepared")
    start_client(
        tmp_path / "compile", *arguments, "--compile-only", address=appliance.address
    ).result()
    start_client(tmp_path / "run", *arguments, address=appliance.address).result()
    first, second = [job for job in appliance.jobs() if job["spec"]["type"] == "compile"][1::-1]
    assert "Program compiled" in coordinator_log(appliance, first)
    assert "Program found in the compile cache" in coordinator_log(appliance, second)


def coordinator_log(appliance: Appliance, job: dict[str, Any]) -> str:
    directory = appliance.data_dir / "jobs" / job["meta"]["name"] / "logs"
    return (directory / "coordinator-0.log").read_text()
