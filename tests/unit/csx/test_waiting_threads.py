"""Threads that wait must not spin on a core that another pod needs."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
import {module}
assert "torch" not in sys.modules, "the OpenMP library has read its environment already"
{call}
print(os.environ["GOMP_SPINCOUNT"])
"""


def spin_count(module: str, call: str, **variables: str) -> str:
    script = SCRIPT.format(module=module, call=call)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": ":".join(sys.path), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("workers.csx", ""),
        ("appliance.cluster.pod_fork_server", "appliance.cluster.pod_fork_server._preload([])"),
    ],
)
def test_the_spin_count_is_set_before_torch_is_there(module, call):
    assert spin_count(module, call) == "1000"
    assert spin_count(module, call, GOMP_SPINCOUNT="7") == "7"
