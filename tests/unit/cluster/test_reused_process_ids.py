"""A dead pod's process id can be another process's by the time the job is stopped."""

import secrets
import signal
import socket
import subprocess
import sys

from appliance.cluster.pod_fork_server import ForkServer, _Job
from tests.support.clock import FakeClock

JOINS_ANOTHER = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "input()"]).pid, flush=True)
"""
"""Ends, and leaves a process in its session."""


def test_whoever_has_a_dead_pods_process_id_is_no_process_of_the_job(tmp_path):
    job = f"wsjob-test{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener, _start("input()") as stranger:
        server = ForkServer(listener, {}, FakeClock(), orphan_seconds=1.0)
        server._jobs[job] = _Job(runtime_dir=tmp_path / job, sessions={stranger.pid})
        server._stop_all()
        stranger.communicate(b"\n", timeout=60)
        assert stranger.returncode == 0


def test_what_a_dead_pod_has_left_is_a_process_of_the_job(tmp_path):
    job = f"wsjob-test{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener, _start(JOINS_ANOTHER) as leader:
        left = int(leader.stdout.readline())
        leader.wait(60)
        server = ForkServer(listener, {}, FakeClock(), orphan_seconds=1.0)
        server._jobs[job] = _Job(runtime_dir=tmp_path / job, sessions={leader.pid})
        (found,) = server._processes(job, server._jobs[job])
        assert found.pid == left
        found.send_signal(signal.SIGKILL)
        found.wait(60)


def _start(code):
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
