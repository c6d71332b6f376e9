"""Which processes are a job's, and what is removed of its traces where everybody may make some."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

from appliance.cluster.process_tree import JOB_VARIABLE, find_processes, remove_traces

SHARED = Path("/dev/shm")
STARTS_ANOTHER = """
import subprocess, sys
idle = [sys.executable, "-c", "input()"]
with subprocess.Popen(idle, env={}, start_new_session=True, stdin=subprocess.PIPE) as child:
    print(child.pid, flush=True)
    input()
    child.stdin.write(b"\\n")
"""
"""Waits; what it starts has neither its environment nor its session."""


def test_processes_of_a_job_are_found_by_environment_by_session_and_by_descent() -> None:
    job = f"wsjob-test{secrets.token_hex(8)}"
    with (
        _start({**os.environ, JOB_VARIABLE: job}) as marked,
        _start({}) as leader,
        _start({**os.environ, JOB_VARIABLE: f"{job}0"}) as stranger,
    ):
        ours = {marked.pid, _child(marked), leader.pid, _child(leader)}
        _child(stranger)
        found = {process.pid for process in find_processes(job, [leader.pid])}
        for process in (marked, leader, stranger):
            process.communicate("\n")
        assert found == ours
    assert find_processes(job, [leader.pid]) == []


def _start(environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", STARTS_ANOTHER],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _child(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_files_of_a_job_are_removed_and_what_strangers_call_by_its_name_does_no_harm(
    tmp_path: Path,
) -> None:
    job = f"wsjob-test{secrets.token_hex(8)}"
    theirs = SHARED / f"a-trap-{job}"
    ours = [SHARED / f"wsc-{job}-{number}" for number in range(2)]
    other = SHARED / f"wsc-wsjob-other{secrets.token_hex(8)}"
    sockets = tmp_path / job
    sockets.mkdir()
    (sockets / "weight-0.sock").touch()
    for path in (*ours, other):
        path.touch()
    theirs.mkdir()
    (theirs / "kept").touch()
    try:
        remove_traces(job, sockets)
        assert not any(path.exists() for path in (*ours, sockets))
        assert (theirs / "kept").exists()
        assert other.exists()
    finally:
        (theirs / "kept").unlink()
        theirs.rmdir()
        os.unlink(other)
