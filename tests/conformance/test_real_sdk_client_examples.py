"""Public CSL examples through the unmodified SDK client, from a checkout that EXAMPLES names."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.appliance import running_appliance
from tests.support.csl_examples import (
    BANDWIDTH_TEST,
    Example,
    examples,
    repositories,
)
from tests.support.sdk_client import start_sdk_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

DIRECTORY = os.environ.get("EXAMPLES", "")
ALL = list(examples(Path(DIRECTORY))) if DIRECTORY else []
DRIVEN = ("gemv-01-complete-program", "topic-01-arrays-and-pointers")
REPOSITORIES = repositories(Path(DIRECTORY)) if DIRECTORY else []
FOUND = [each for each in ALL if each.compiles]


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
    assert "SUCCESS!" in run.text() or not example.reports_success


@pytest.mark.parametrize(
    "example", [each for each in ALL if each.program in DRIVEN], ids=lambda example: example.name
)
def test_an_example_is_driven_by_the_client_itself(example: Example, appliance, tmp_path: Path):
    commands = str(example.commands.resolve())
    run = start_sdk_client("drive.py", tmp_path, appliance.config_path, commands)
    assert run.wait() == 0, run.text()[-4000:]
    assert "SUCCESS!" in run.text()


def copied(repository: Path, name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(repository / "benchmarks" / name, tmp_path / name))


@pytest.mark.parametrize("repository", REPOSITORIES, ids=lambda path: path.name)
def test_the_bandwidth_test_runs_as_it_is_shipped(repository: Path, appliance, tmp_path: Path):
    directory = copied(repository, "bandwidth-test", tmp_path)
    script = str(directory / "run.appliance.py")
    for arguments in BANDWIDTH_TEST:
        run = start_sdk_client(script, directory, appliance.config_path, *arguments.split())
        assert run.wait() == 0, run.text()[-4000:]
    assert "MB/S" in run.text()


@pytest.mark.parametrize("repository", REPOSITORIES, ids=lambda path: path.name)
def test_a_matrix_is_multiplied_by_the_appliance_script(
    repository: Path, appliance, tmp_path: Path
):
    directory = copied(repository, "single-tile-matvec", tmp_path)
    config = appliance.config_path
    run = start_sdk_client("matvec.py", directory, config, str(directory))
    assert run.wait() == 0, run.text()[-4000:]
    size = "--width=2 --height=2 --nb=25 --iters=1"
    script = str(directory / "run.appliance.py")
    words = ("--simulator", "--verify", "--name", "latest", *size.split())
    run = start_sdk_client(script, directory, config, *words)
    assert run.wait() == 0, run.text()[-4000:]
    assert "SUCCESS!" in run.text()
