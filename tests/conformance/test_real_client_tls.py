"""TLS: the client, and the csctl of its release, find the cluster by its config file alone."""

import json
import subprocess
from pathlib import Path

import pytest

from appliance.management.store.versions import CLIENT_BUILDS
from tests.support.appliance import Appliance, running_appliance
from tests.support.client import client_venv, losses, start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

RELEASES_WITH_CSCTL = ("2.6.0", "2.7.0", "2.7.1", "2.8.0", "2.9.0")
"""The wheels of later releases have no csctl in them."""


def test_a_config_file_is_all_a_client_needs_for_tls(tmp_path: Path) -> None:
    with running_appliance(tmp_path / "appliance", "--systems", "1", "--tls") as appliance:
        cluster = json.loads(appliance.config_path.read_text())["clusters"][0]
        assert cluster["namespaces"][0]["certificateAuthorityData"]
        run = start_client(
            tmp_path / "client",
            *("--model", "mlp_sgd", "--steps", "3", "--job-label", "team=a"),
            config=appliance.config_path,
        )
        assert len(losses(run.result())) == 3
        assert "TLS certificate was not provided" not in run.text()
        assert "execute" in appliance.csctl("get", "jobs", "-a")
        job = next(job["meta"]["name"] for job in appliance.jobs() if "compile" in str(job["spec"]))
        for release in RELEASES_WITH_CSCTL:
            _follow_the_csctl_of(release, appliance, job)


def _follow_the_csctl_of(release: str, appliance: Appliance, job: str) -> None:
    """Do with a release's own csctl what its users do with it every day."""

    def csctl(*words: str) -> str:
        return _csctl(release, appliance, *words)

    listed = csctl("get", "jobs", "-a", "-l", "team=a")
    assert job in listed
    assert " execute " in listed
    youngest = csctl("get", "jobs", "-a", "--sort", "age", "--order", "asc", "--max-jobs", "1")
    assert " execute " in youngest
    assert " compile " not in youngest
    assert job in csctl("get", "jobs", "-a", "-m")
    assert json.loads(csctl("get", "job", job, "-ojson"))["meta"]["name"] == job
    build = f"{release}+{CLIENT_BUILDS[release]}"
    assert csctl("get", "version").count(build) == 4
    assert "systemf0" in csctl("get", "system", "--version", "version!=v1")
    assert "systemf0" not in csctl("get", "system", "--version", "version=v1")
    csctl("label", "job", job, f"seen-by={release}")
    assert f"seen-by={release}" in csctl("get", "job", job)
    assert "SUCCEEDED already" in csctl("cancel", "job", job)


def _csctl(release: str, appliance: Appliance, *words: str) -> str:
    program = "lib/python3.11/site-packages/cerebras/appliance/bin/raw/csctl"
    done = subprocess.run(
        [client_venv(release) / program, "--csconfig", appliance.config_path, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr
