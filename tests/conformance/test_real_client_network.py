"""The real client on an appliance whose tensors all cross the network."""

from pathlib import Path

import numpy as np
import pytest

from tests.conformance.test_real_client_training import state_of
from tests.support.appliance import Appliance, running_appliance
from tests.support.client import losses, start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]


def train(address: str, work: Path) -> tuple[list[float], dict[str, np.ndarray]]:
    run = start_client(
        work,
        *("--model", "gpt_adamw", "--steps", "4", "--num-csx", "2"),
        *("--save", str(work / "state.mdl")),
        address=address,
    )
    result = run.result()
    return losses(result), state_of(result["checkpoints"][-1]["path"])


def test_losses_and_weights_are_the_same_bits_as_in_shared_memory(
    appliance: Appliance, tmp_path: Path
) -> None:
    want_losses, want_state = train(appliance.address, tmp_path / "ring")
    arguments = ("--systems", "2", "--streams", "network-tls")
    with running_appliance(tmp_path / "appliance", *arguments) as networked:
        got_losses, got_state = train(networked.address, tmp_path / "network")
    assert got_losses == want_losses
    assert sorted(got_state) == sorted(want_state)
    for name, tensor in want_state.items():
        assert tensor.tobytes() == got_state[name].tobytes(), name
