"""Public CSL examples through the unmodified SDK client, from a checkout that EXAMPLES names."""

import os
from pathlib import Path

import pytest

from tests.support.appliance import running_appliance
from tests.support.csl_examples import ON_AN_APPLIANCE, Example, examples
from tests.support.sdk_client import start_sdk_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

DIRECTORY = os.environ.get("EXAMPLES", "")
ALL = list(examples(Path(DIRECTORY))) if DIRECTORY else []
FOUND = [each for each in ALL if each.program in ON_AN_APPLIANCE]


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    with running_appliance(tmp_path_factory.mktemp("sdk") / "data", "--systems", "1") as running:
        yield running


@pytest.mark.parametrize("example", FOUND, ids=lambda example: example.name)
def test_an_example_runs_on_an_appliance(example: Example, appliance, tmp_path: Path):
    run = start_sdk_client(
        "example.py", tmp_path, appliance.config_path, str(example.commands.resolve())
    )
    status = run.wait()
    assert status == 0, run.text()[-4000:]
    assert "SUCCESS!" in run.text()
