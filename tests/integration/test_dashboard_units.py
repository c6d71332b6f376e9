"""The unit tests of the dashboard's pages: what reads, sorts and writes what they show."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.helm import ROOT

WEB = ROOT / "appliance" / "dashboard" / "web"


def test_the_units_of_the_pages_do_what_their_tests_say(tmp_path: Path) -> None:
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("the tools of the pages are packages of npm: install Node.js")
    copy = tmp_path / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules"))
    run("npm", "ci", "--no-audit", "--no-fund", cwd=copy)
    assert "passed" in run("npm", "test", cwd=copy)


def run(*command: str, cwd: Path) -> str:
    """Run a command in a directory; return what it printed."""
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
