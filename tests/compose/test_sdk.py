"""docker-compose.yml for real: the public SDK client compiles and runs programs of the wafer."""

import base64
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.support.containers import Compose
from tests.support.csl_examples import (
    BANDWIDTH_TEST,
    Example,
    examples,
    repositories,
)
from tests.support.sdk_client import OWN_EXAMPLES, PROGRAMS

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(3600)]

DIRECTORY = os.environ.get("EXAMPLES", "")
SHARED = "benchmark-libs"
ALL = list(examples(Path(DIRECTORY))) if DIRECTORY else []
PUBLIC = [each for each in ALL if each.compiles]
SHIPPED = [
    repository / "benchmarks" / "bandwidth-test"
    for repository in (repositories(Path(DIRECTORY)) if DIRECTORY else [])
]


def test_the_sdk_client_does_all_that_it_can_do(project: Compose) -> None:
    program = (PROGRAMS / "whole.py").read_text()
    project.feed("user-node", "sh", "-c", "mkdir ~/sdk && cat > ~/sdk/whole.py", text=program)
    run = "cd ~/sdk && python whole.py /opt/examples/csl wse3"
    text = project.execute("user-node", "sh", "-c", run, timeout_seconds=600)
    found = json.loads(text.strip().split("\n")[-1])
    assert found["again"] == found["artifact"]
    assert "SUCCESS!" in found["launched"]
    assert found["is_right"]
    assert found["columns_first"]
    assert found["broken"] == "ApplianceUnknownError: SdkCompiler.compile() failed."
    listed = project.execute("user-node", "csctl", "get", "jobs", "-a", "-o", "json")
    kinds = [job["spec"]["type"] for job in json.loads(listed)["items"]]
    assert kinds.count("sdk-compile") >= 5


def run_example(project: Compose, name: str, commands: Path) -> str:
    """Run a copy of an example on the user's node as its command file says; return its words."""
    target = f"~/{name}"
    unpack = f"mkdir -p {target} && base64 -d | tar -x -C {target}"
    project.feed(
        "user-node", "sh", "-c", unpack, text=archived(commands.parent, *shared_by(commands))
    )
    program = (PROGRAMS / "example.py").read_text()
    project.feed("user-node", "sh", "-c", f"cat > {target}/example.py", text=program)
    run = f"cd {target} && python example.py {commands.parent.name}/{commands.name}"
    return project.execute("user-node", "sh", "-c", run, timeout_seconds=600)


@pytest.mark.parametrize(
    "commands", OWN_EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_an_example_of_ours_runs_as_its_commands_say(project: Compose, commands: Path) -> None:
    name = f"own-{commands.parent.name}-{commands.stem}"
    assert "SUCCESS!" in run_example(project, name, commands)


@pytest.mark.parametrize("example", PUBLIC, ids=lambda example: example.name)
def test_a_public_example_runs_as_its_commands_say(project: Compose, example: Example) -> None:
    name = example.name.replace("/", "-").replace(" ", "-")
    words = run_example(project, name, example.commands.resolve())
    assert "SUCCESS!" in words or not example.reports_success


@pytest.mark.parametrize("directory", SHIPPED, ids=str)
def test_the_bandwidth_test_runs_as_it_is_shipped(project: Compose, directory: Path) -> None:
    target = f"~/{directory.parents[1].name}"
    unpack = f"mkdir {target} && base64 -d | tar -x -C {target}"
    project.feed("user-node", "sh", "-c", unpack, text=archived(directory))
    for arguments in BANDWIDTH_TEST:
        run = f"cd {target}/{directory.name} && python run.appliance.py {arguments}"
        said = project.execute("user-node", "sh", "-c", run, timeout_seconds=600)
    assert "bandwidth" in said


def shared_by(commands: Path) -> list[Path]:
    """Return the sources of other examples that one imports."""
    is_named = any(SHARED in path.read_text() for path in commands.parent.rglob("*.csl"))
    return [commands.parents[1] / SHARED] if is_named else []


def archived(*directories: Path) -> str:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for directory in directories:
            archive.add(directory, arcname=directory.name)
    return base64.b64encode(made.getvalue()).decode()
