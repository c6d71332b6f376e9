"""Parties of a comparison: a killed benchmark leaves none, and none starts without memory."""

import os
import signal
import subprocess
import sys
import textwrap

import psutil
import pytest

from benchmarks.engine import SHAPES
from benchmarks.engine_parties import checkouts
from benchmarks.engine_parties.comparison import Comparison
from benchmarks.engine_parties.party import memory_needed
from benchmarks.engine_parties.until_parent_ends import ending_with_this_process

SECONDS = 60
STARTER = textwrap.dedent("""
    import signal, subprocess, sys
    from benchmarks.engine_parties.until_parent_ends import ending_with_this_process

    waiting = [sys.executable, "-c", "print(flush=True); import signal; signal.pause()"]
    child = subprocess.Popen(ending_with_this_process(waiting), stdout=subprocess.PIPE)
    child.stdout.read(1)
    print(child.pid, flush=True)
    signal.pause()
""")


def test_a_party_is_ended_with_a_benchmark_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE) as benchmark:
        child = psutil.Process(int(benchmark.stdout.readline()))
        assert child.is_running()
        benchmark.kill()
    child.wait(SECONDS)


def run(command):
    return subprocess.run(ending_with_this_process(command), check=False)


def test_a_command_keeps_its_exit_code_and_its_signals():
    command = [sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"]
    assert run(command).returncode == -signal.SIGTERM
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    assert run(command).returncode == 3


def test_a_command_whose_starter_is_gone_does_not_begin():
    command = list(ending_with_this_process([sys.executable, "-c", ""]))
    assert command[2] == str(os.getpid())
    command[2] = "1"
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 1
    assert "has ended" in found.stderr


class PlayedParty:
    """Counts how often it is started."""

    def __init__(self, name, needed_bytes):
        self.name, self.needed_bytes, self.num_starts = name, needed_bytes, 0

    def start(self):
        self.num_starts += 1

    def run(self, num_steps):
        return 0.5

    def processes(self):
        return []

    def close(self):
        pass


def test_a_party_that_does_not_fit_the_memory_is_missing_and_says_so():
    large, small = PlayedParty("large", 1 << 50), PlayedParty("small", 1)
    comparison = Comparison(512)
    comparison.add_rounds([large, small], num_rounds=1, num_steps=1)
    assert (large.num_starts, small.num_starts) == (0, 1)
    assert "large needs some 1125899.9 GB of memory" in comparison.missing["large"]
    assert list(comparison.blocks) == ["small"]


@pytest.mark.parametrize(
    ("shape", "num_processes", "least", "most"), [("d512", 1, 0.8e9, 1.4e9), ("d1024", 1, 4e9, 8e9)]
)
def test_needed_memory_is_near_what_was_measured(shape, num_processes, least, most):
    found = memory_needed(SHAPES[shape], num_processes=num_processes, num_replicas=1)
    assert least < found < most


def test_another_checkout_has_to_be_there(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        checkouts.main([str(tmp_path)])
    assert f"{tmp_path} is no checkout of this repository" in capsys.readouterr().err
