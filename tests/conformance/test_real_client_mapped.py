"""Systems that compute on MemoryX's own memory, seen by the unmodified client."""

from pathlib import Path

import pytest

from tests.conformance.test_real_client_training import state_of
from tests.support.appliance import Appliance, running_appliance
from tests.support.client import losses, start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]


def test_a_mapped_store_gives_the_bits_of_the_ring(appliance: Appliance, tmp_path: Path) -> None:
    def train(name: str, address: str) -> tuple[list[float], str]:
        work = tmp_path / name
        arguments = ("--model", "gpt_adamw", "--steps", "4", "--num-csx", "2")
        run = start_client(work, *arguments, "--save", str(work / "state.mdl"), address=address)
        result = run.result()
        return losses(result), result["checkpoints"][-1]["path"]

    with running_appliance(tmp_path / "data", "--systems", "2", "--streams", "ring") as ring:
        wanted = train("ring", ring.address)
    found = train("mapped", appliance.address)
    assert found[0] == wanted[0]
    found_state, wanted_state = state_of(found[1]), state_of(wanted[1])
    for name, tensor in wanted_state.items():
        assert tensor.tobytes() == found_state[name].tobytes(), name
