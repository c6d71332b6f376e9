"""docker-compose.yml for real: the public SDK client compiles and runs programs of the wafer."""

import base64
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.support.containers import Compose
from tests.support.csl_examples import BANDWIDTH_TEST, repositories
from tests.support.sdk_client import PROGRAMS

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(3600)]

DIRECTORY = os.environ.get("EXAMPLES", "")
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


@pytest.mark.parametrize("directory", SHIPPED, ids=str)
def test_the_bandwidth_test_runs_as_it_is_shipped(project: Compose, directory: Path) -> None:
    target = f"~/{directory.parents[1].name}"
    unpack = f"mkdir {target} && base64 -d | tar -x -C {target}"
    project.feed("user-node", "sh", "-c", unpack, text=archived(directory))
    for arguments in BANDWIDTH_TEST:
        run = f"cd {target}/{directory.name} && python run.appliance.py {arguments}"
        said = project.execute("user-node", "sh", "-c", run, timeout_seconds=600)
    assert "bandwidth" in said


def archived(directory: Path) -> str:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.add(directory, arcname=directory.name)
    return base64.b64encode(made.getvalue()).decode()
