"""csctl's own distribution, in an environment that holds nothing but what it asks for."""

import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from csctl.command_line.version import csctl_version
from tests.support.appliance_process import ROOT, running_appliance

_SOURCE = ROOT / "deploy" / "csctl"
_NO_INDEX = ("No matching distribution found", "Could not find a version")
_MOST_BYTES = 150e6
"""Of the whole environment without pip."""


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(each) for each in arguments],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("csctl")
    pip = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")
    done = run(*pip, "wheel", "--no-deps", "--wheel-dir", path, _SOURCE, HOME=str(Path.home()))
    if any(words in done.stderr for words in _NO_INDEX):
        pytest.skip("hatchling, which builds the wheel, cannot be had: no package index answers")
    assert done.returncode == 0, done.stderr
    (wheel,) = path.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def environment(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(path, with_pip=True)
    pip = (path / "bin" / "python", "-m", "pip", "-q", "--disable-pip-version-check")
    done = run(*pip, "install", "-c", ROOT / "constraints.txt", built, HOME=str(Path.home()))
    if any(words in done.stderr for words in _NO_INDEX):
        pytest.skip("csctl's dependencies cannot be had: no package index answers")
    assert done.returncode == 0, done.stderr
    assert run(*pip, "check").returncode == 0
    return path


def test_it_has_what_csctl_is_made_of_and_nothing_of_the_appliance(built: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "csctl", "protos"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = set(zipfile.ZipFile(built).namelist())
    assert sorted(set(listed.stdout.split()) - names) == []
    assert not [name for name in names if name.startswith(("appliance/management", "workers"))]
    assert not [name for name in names if name.endswith(".pyc")]


def test_both_distributions_have_one_version() -> None:
    versions = {
        tomllib.loads((path / "pyproject.toml").read_text())["project"]["version"]
        for path in (ROOT, _SOURCE)
    }
    assert versions == {csctl_version()}


def test_it_runs_csctl_against_an_appliance_without_pytorch(
    environment: Path, tmp_path: Path
) -> None:
    csctl = environment / "bin" / "csctl"
    missing = run(environment / "bin" / "python", "-c", "import torch")
    assert "No module named 'torch'" in missing.stderr
    site = next((environment / "lib").glob("python3*/site-packages"))
    size = sum(
        file.stat().st_size
        for file in site.rglob("*")
        if file.is_file() and not file.relative_to(site).parts[0].startswith("pip")
    )
    assert size < _MOST_BYTES
    with running_appliance(tmp_path / "data") as appliance:
        cluster = run(csctl, "get", "cluster", CSCONFIG_PATH=str(appliance.state.config_path))
    assert "systemf0" in cluster.stdout, cluster.stderr
    estimate = run(csctl, "estimate", "--layers", "24", "--hidden", "2048")
    assert "1.32 B parameters" in estimate.stdout, estimate.stderr
