"""The Model Zoo's families as plain programs: the systems against the CPU backend."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conformance.test_real_client_training import state_of
from tests.support.appliance import Appliance
from tests.support.client import start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

PROGRAMS = ("decoder_families", "encoder_families", "tuning_families", "mask_families")
STEPS = 5
DRAWN = "set"
"""SET draws what it grows, as dropout draws: no two backends draw alike."""


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_family_trains_as_on_the_cpu_backend(
    program: str, appliance: Appliance, tmp_path: Path
) -> None:
    def start(name: str, *options: str, **where: str) -> Any:
        work = tmp_path / name
        shared = ("--model", program, "--steps", str(STEPS), "--save", str(work / "state.mdl"))
        return start_client(work, *shared, *options, **where)

    runs = (start("cpu"), start("csx", "--num-csx", "2", address=appliance.address))
    want, got = (run.result() for run in runs)

    (expected,), (found,) = want["phases"], got["phases"]
    assert sorted(found["outputs"]) == sorted(expected["outputs"])
    for family, losses in expected["outputs"].items():
        np.testing.assert_allclose(
            [float.fromhex(loss) for loss in found["outputs"][family]],
            [float.fromhex(loss) for loss in losses],
            rtol=1e-2 if family == DRAWN else 1e-5,
            err_msg=family,
        )
    state, expected_state = (state_of(run["checkpoints"][-1]["path"]) for run in (got, want))
    assert sorted(state) == sorted(expected_state)
    for name, tensor in expected_state.items():
        if f".{DRAWN}." not in name:
            np.testing.assert_allclose(state[name], tensor, rtol=1e-4, atol=1e-6, err_msg=name)
