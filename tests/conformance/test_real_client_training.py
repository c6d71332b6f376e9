"""The unmodified client's losses and weights on the appliance against its own CPU backend."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.appliance import Appliance
from tests.support.client import arrays_of, losses, start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

MODELS = [
    "mlp_sgd",
    "mlp_momentum",
    "cnn_bn_pool",
    "gpt_adamw",
    "dynamic_loss_scale",
    "tied_embeddings",
    "encoder_masks",
    "llama_like",
    "routed_experts",
    "sparse_gpt",
]
STEPS = "5"
NOT_TRAINED = ("running_mean", "running_var")
"""The client's traced program returns them as they came in; its CPU backend updates them."""


@pytest.fixture(scope="session")
def cpu_results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Results of the CPU backend by model, filled as they are asked for."""
    return {}


@pytest.fixture
def cpu_result(
    cpu_results: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Any:
    def get(model: str) -> dict[str, Any]:
        if model not in cpu_results:
            work = tmp_path_factory.mktemp(f"cpu-{model}")
            run = start_client(
                work, "--model", model, "--steps", STEPS, "--save", str(work / "cpu.mdl")
            )
            cpu_results[model] = run.result()
        return cpu_results[model]

    return get


# Every model on one system and on several: two, and three for every other model.
@pytest.mark.parametrize(
    ("model", "num_csx"),
    [(model, num_csx) for i, model in enumerate(MODELS) for num_csx in (1, 2 + i % 2)],
)
def test_training_equals_the_cpu_backend(
    model: str, num_csx: int, appliance: Appliance, cpu_result: Any, tmp_path: Path
) -> None:
    want = cpu_result(model)
    run = start_client(
        tmp_path,
        *("--model", model, "--steps", STEPS, "--num-csx", str(num_csx)),
        *("--save", str(tmp_path / "csx.mdl")),
        address=appliance.address,
    )
    result = run.result()
    np.testing.assert_allclose(losses(result), losses(want), rtol=1e-5)
    got_state, want_state = (state_of(r["checkpoints"][-1]["path"]) for r in (result, want))
    assert sorted(got_state) == sorted(want_state)
    for name, tensor in want_state.items():
        np.testing.assert_allclose(got_state[name], tensor, rtol=1e-4, atol=1e-6, err_msg=name)


@functools.cache
def state_of(checkpoint: str) -> dict[str, np.ndarray]:
    """Return what a checkpoint has of the model; read once, as a CPU run is held against many."""
    return {
        name: array
        for name, array in arrays_of(Path(checkpoint)).items()
        if name.startswith("model") and not name.endswith(NOT_TRAINED)
    }


def test_two_runs_are_bit_identical_and_systems_agree(appliance: Appliance, tmp_path: Path) -> None:
    def train(name: str, num_csx: int) -> tuple[list[float], dict[str, np.ndarray]]:
        work = tmp_path / name
        run = start_client(
            work,
            *("--model", "gpt_adamw", "--steps", STEPS, "--num-csx", str(num_csx)),
            *("--save", str(work / "state.mdl")),
            address=appliance.address,
        )
        result = run.result()
        return losses(result), state_of(result["checkpoints"][-1]["path"])

    first, second, one = train("first", 2), train("second", 2), train("one", 1)
    assert first[0] == second[0]
    for name, tensor in first[1].items():
        assert tensor.tobytes() == second[1][name].tobytes(), name
    np.testing.assert_allclose(first[0], one[0], rtol=1e-6)
