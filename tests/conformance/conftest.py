"""One appliance with three systems for all conformance tests of a worker process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.appliance import Appliance, running_appliance


@pytest.fixture(scope="session")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    data_dir: Path = tmp_path_factory.mktemp("appliance")
    with running_appliance(data_dir, "--systems", "3") as running:
        yield running
