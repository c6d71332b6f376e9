"""What the pages for administrators tell to type does what they say."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.pages import ROOT, commands_of, follow


@pytest.fixture
def home():
    """A home with a short name; what was started from it is stopped."""
    with tempfile.TemporaryDirectory(prefix="p") as directory:
        yield Path(directory)
        subprocess.run(
            [sys.executable, "-m", "appliance", "down"],
            cwd=ROOT,
            env={**os.environ, "HOME": directory, "XDG_DATA_HOME": ""},
            capture_output=True,
            check=False,
        )


@pytest.mark.parametrize("page", ["administration", "operations"])
def test_a_page_can_be_followed_from_its_first_command_to_its_last(page, home):
    commands = commands_of((ROOT / "docs" / f"{page}.md").read_text())
    assert len(commands) > 10
    follow(commands, home)


def test_a_command_that_prints_something_else_is_found(tmp_path):
    text = "```console\n$ echo one two\none ... three\n```\n"
    with pytest.raises(AssertionError, match=re.escape("shown:   one ... three")):
        follow(commands_of(text), tmp_path)


def test_a_command_that_fails_is_named(tmp_path):
    text = "```console\n$ true\n$ false\n$ true\n```\n"
    with pytest.raises(AssertionError, match=r"\$ false"):
        follow(commands_of(text), tmp_path)
