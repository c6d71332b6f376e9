"""What all conformance tests of a process share: an appliance, and loops that were compiled."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from appliance.numerics.loops.machine_code import keep_machine_code
from tests.support import kept_machine_code
from tests.support.appliance import Appliance, running_appliance


@pytest.fixture(scope="session", autouse=True)
def _computing_beside_others() -> None:
    """Let what tests compute themselves take one thread, and compile a loop once in a run.

    Other processes of tests run beside this one: threads that wait for each other on busy cores
    took four fifths of the time of small products, and two thirds of the rest went to LLVM.
    """
    torch.set_num_threads(1)
    keep_machine_code(kept_machine_code.directory())


@pytest.fixture(scope="session")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    data_dir: Path = tmp_path_factory.mktemp("appliance")
    with running_appliance(data_dir, "--systems", "3") as running:
        yield running
