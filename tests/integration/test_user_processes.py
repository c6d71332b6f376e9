"""Programs of the user are forked from one server, and live and die as if started by themselves."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import psutil
import pytest

from appliance.pods.job_user import JobUser
from appliance.user_code.user_processes import ForkServerEndedError, UserCommand, start
from tests.support import waiting
from tests.support.processes import is_alive

PROGRAM = """
import os, random, signal, subprocess, sys
import numpy

kind = sys.argv[1]
if kind == "show":
    print(__name__, sys.argv[0].endswith("program.py"), os.getcwd(), os.getppid())
    print(numpy.random.rand(), random.random(), flush=True)
elif kind == "fail":
    raise SystemExit(7)
elif kind == "raise":
    raise ValueError("of the user's own")
elif kind == "wait":
    child = subprocess.Popen(["sleep", "600"])
    print(os.getpid(), child.pid, flush=True)
    signal.pause()
"""


@pytest.fixture
def command(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)

    def make(kind, name="log", *, python=sys.executable):
        return UserCommand(
            python=python,
            module="program",
            arguments=(kind,),
            directory=tmp_path,
            variables={"PATH": os.environ["PATH"], "WSC_JOB": str(tmp_path)},
            log_path=tmp_path / name,
            user=JobUser.of(None, None),
            secret="known to the job's pods",
            preloaded=("numpy", "no_such_module"),
        )

    return make


def wait_until(condition):
    waiting.wait_until(condition, seconds=120, what="the end or beginning of a process")


def run(command):
    process = start(command)
    try:
        return process.wait()
    finally:
        process.close()


def pids_of(log):
    return [int(word) for word in log.read_text().split()]


def waiting_program(command, tmp_path):
    process = start(command("wait"))
    wait_until(lambda: len((tmp_path / "log").read_text().split()) == 2)
    return process, *pids_of(tmp_path / "log")


def test_programs_share_a_server_and_neither_their_log_nor_their_random_numbers(command, tmp_path):
    processes = [start(command("show", name)) for name in ("a", "b")]
    assert [process.wait() for process in processes] == [0, 0]
    shown = [(tmp_path / name).read_text().splitlines() for name in ("a", "b")]
    (name, is_module, directory, server), other = shown[0][0].split(), shown[1][0].split()
    assert (name, is_module, directory) == ("__main__", "True", str(tmp_path))
    assert other[3] == server
    assert not set(shown[0][1].split()) & set(shown[1][1].split())
    for process in processes:
        process.close()
    wait_until(lambda: not is_alive(int(server)))


@pytest.mark.parametrize(("kind", "code"), [("fail", 7), ("raise", 1)])
def test_the_exit_code_and_the_traceback_are_the_programs_own(command, tmp_path, kind, code):
    assert run(command(kind)) == code
    assert ("of the user's own" in (tmp_path / "log").read_text()) is (kind == "raise")


def test_a_signal_goes_to_the_program_and_its_children(command, tmp_path):
    process, pid, child = waiting_program(command, tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM
    wait_until(lambda: not is_alive(pid) and not is_alive(child))
    process.close()


def test_a_program_that_nobody_asks_after_any_more_is_killed_with_its_children(command, tmp_path):
    process, pid, child = waiting_program(command, tmp_path)
    waiting = threading.Thread(target=process.wait)
    waiting.start()
    process.kill()
    waiting.join()
    process.close()
    wait_until(lambda: not is_alive(pid) and not is_alive(child))


def test_everything_dies_with_the_pod(command, tmp_path):
    pod = f"""
        import os, pathlib, signal, sys
        from appliance.pods.job_user import JobUser
        from appliance.user_code.user_processes import UserCommand, start
        kept = start(UserCommand(python=pathlib.Path(sys.executable), module="program",
            arguments=("wait",), directory=pathlib.Path({str(tmp_path)!r}),
            variables={{"PATH": os.environ["PATH"], "WSC_JOB": {str(tmp_path)!r}}},
            log_path=pathlib.Path({str(tmp_path)!r}) / "log",
            user=JobUser.of(None, None), secret="known to the job's pods",
            preloaded=("numpy",)))
        signal.pause()
    """
    command("wait")
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(pod)])
    log = tmp_path / "log"
    wait_until(lambda: log.exists() and len(log.read_text().split()) == 2)
    pid, child = pids_of(log)
    server = psutil.Process(pid).ppid()
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_alive, (server, pid))))
    os.kill(child, signal.SIGKILL)


def test_a_server_that_ends_at_once_tells_how(command, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no such module >&2\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(ForkServerEndedError) as caught:
        run(command("show", python=python))
    assert caught.value.exit_code == 3
    assert "no such module" in (tmp_path / "log").read_text()
