"""The unit tests of the dashboard's pages: what reads, sorts and writes what they show."""

import subprocess

import pytest

from tests.support.helm import ROOT

WEB = ROOT / "appliance" / "dashboard" / "web"


def test_the_units_of_the_pages_do_what_their_tests_say() -> None:
    if not (WEB / "node_modules" / "vitest").is_dir():
        pytest.skip("the packages of the pages are not installed: make pages, which needs Node.js")
    done = subprocess.run(
        ("npm", "test"), cwd=WEB, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
