"""The wheel, installed where there is no checkout: nothing that the appliance needs is missing."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from tests.support.appliance_process import ROOT

_PACKAGES = ("appliance", "workers", "csctl", "protos")
_LEFT_OUT = "appliance/dashboard/web/"
"""Sources of the dashboard, whose built pages are in the wheel."""

_HEAVY = ("torch", "kubernetes", "psycopg", "sqlalchemy", "fastapi", "llvmlite", "typer", "httpx")
_WALK = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {_HEAVY!r}:
            raise ImportError(f"csctl imports {{name}}")

sys.meta_path.insert(0, Refuse())
import click
from csctl.command_line.app import app

def walk(command):
    context = click.Context(command)
    names = command.list_commands(context) if isinstance(command, click.Group) else ()
    return 1 + sum(walk(command.get_command(context, name)) for name in names)

print(walk(app), "commands")
"""


class Installed:
    """The wheel's files and programs."""

    def __init__(self, wheel: Path, site: Path, home: Path) -> None:
        self.wheel, self.site, self.home = wheel, site, home
        self._environment = {
            "HOME": str(home),
            "PATH": f"{site / 'bin'}:{Path(sys.executable).parent}:{os.defpath}",
            "PYTHONPATH": str(site),
            "XDG_DATA_HOME": str(home / "share"),
        }

    def run(self, *arguments: str) -> str:
        """Run a program where there is no checkout, and return what it prints."""
        done = subprocess.run(
            arguments,
            cwd=self.home,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    path = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")
    built = subprocess.run(
        [*pip, "wheel", "--no-deps", "--wheel-dir", str(path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "No matching distribution found for hatchling" in built.stderr:
        pytest.skip("hatchling, which builds the wheel, cannot be had: no package index answers")
    assert built.returncode == 0, built.stderr
    (wheel,) = path.glob("*.whl")
    (home := path / "home").mkdir()
    install = [*pip, "install", "--no-deps", "--target", str(path / "site"), str(wheel)]
    subprocess.run(install, check=True)
    return Installed(wheel, path / "site", home)


def test_the_wheel_has_every_file_of_its_packages(installed: Installed) -> None:
    listed = subprocess.run(
        ["git", "ls-files", *_PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wanted = {name for name in listed.stdout.split() if not name.startswith(_LEFT_OUT)}
    assert len(wanted) > 500
    assert sorted(wanted - set(zipfile.ZipFile(installed.wheel).namelist())) == []


def test_what_is_installed_comes_up_and_serves_its_users(installed: Installed) -> None:
    where = "import appliance, workers, csctl, protos; print(appliance.__file__)"
    assert installed.run(sys.executable, "-c", where).startswith(str(installed.site))
    up = ("appliance", "up", "--systems", "1", "--port", "0", "--rest-port", "0")
    try:
        said = installed.run(*up)
        found = re.search(r"dashboard\s+(http://\S+)", said)
        assert found, said
        with httpx.Client(base_url=found[1], timeout=30) as browser:
            page = browser.get("/")
            assert page.status_code == 200
            parts = re.findall(r"(?:src|href)=\"\.?(/?assets/[^\"]+)\"", page.text)
            assert parts
            for part in parts:
                assert browser.get(part).status_code == 200, part
            assert browser.get("/api/v1/openapi.json").json()["paths"]
        assert "systemf0" in installed.run("csctl", "get", "cluster")
        said = installed.run("csctl", "submit", "--attach", "--", "echo", "hello")
        assert "\nhello\n" in said
        size = ("--layers", "2", "--hidden", "256")
        assert "M parameters" in installed.run("csctl", "estimate", *size)
        assert "cslc" in installed.run("cslc", "--help")
    finally:
        installed.run("appliance", "down")


def test_csctl_runs_without_what_only_the_appliance_needs(installed: Installed) -> None:
    said = installed.run(sys.executable, "-c", _WALK)
    assert int(said.split()[0]) > 40
