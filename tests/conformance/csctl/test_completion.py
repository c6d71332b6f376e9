"""Completion as a real bash does it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.csctl.conftest import Shell
from tests.support.csctl import make_job

ROOT = Path(__file__).parents[3]

# Bash calls the registered function with the words of the line, as readline would at <TAB>.
_COMPLETE = r"""
eval "$(csctl completion bash)"
complete -p csctl >/dev/null || exit 1
COMP_WORDS=($1 "$2"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE="$1 $2"
_csctl_completion csctl
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A directory for PATH with csctl in it."""
    path = tmp_path / "bin" / "csctl"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m csctl "$@"\n')
    path.chmod(0o755)
    return path.parent


def complete(program: Path, words: str, begun: str = "") -> list[str]:
    environment = {
        **os.environ,
        "PATH": f"{program}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    answer = subprocess.run(
        ["bash", "--norc", "-c", _COMPLETE, "bash", words, begun],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.split()


def test_bash_completes_commands_options_and_values(program: Path) -> None:
    assert complete(program, "csctl get", "jo") == ["job", "jobs"]
    assert "--all-states" in complete(program, "csctl get jobs", "--all")
    assert complete(program, "csctl get jobs -o", "js") == ["json", "jsonpath="]


def test_bash_completes_the_names_of_jobs(program: Path, shell: Shell) -> None:
    shell.cluster.jobs = [make_job("wsjob-one"), make_job("wsjob-two"), make_job("other")]

    assert complete(program, "csctl cancel job", "wsjob-") == ["wsjob-one", "wsjob-two"]


def test_completing_without_a_cluster_says_nothing(program: Path, shell: Shell) -> None:
    shell.config.write_text("{}")

    assert complete(program, "csctl cancel job", "wsjob-") == []
