"""Programs of the user are forked from one server, and live and die as if started by themselves."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from unittest.mock import ANY

import psutil
import pytest

from appliance.pods.job_user import JobUser
from appliance.user_code import user_processes
from appliance.user_code.user_processes import ForkServerEndedError, UserCommand, start
from tests.support import waiting
from tests.support.processes import is_alive, variables_of

PROGRAM = """
import os, random, signal, subprocess, sys
import numpy

kind = sys.argv[1]
if kind == "show":
    print(__name__, sys.argv[0].endswith("program.py"), os.getcwd(), os.getppid())
    print(numpy.random.rand(), random.random(), flush=True)
elif kind == "import":
    import colorsys
elif kind == "library":
    import library, psutil
    print(sys.path[1:3])
    print(library.VALUE, "colorsys" in sys.modules, psutil.Process(os.getppid()).ppid())
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
def command(tmp_path, monkeypatch):
    monkeypatch.setattr(user_processes, "_IDLE_SECONDS", 5.0)
    (tmp_path / "program.py").write_text(PROGRAM)

    def make(kind, name="log", *, job="wsjob-1", python=sys.executable, preloaded=()):
        return UserCommand(
            python=python,
            module="program",
            arguments=(kind,),
            directory=tmp_path,
            search_path=(str(tmp_path / "packages"), f"/where/{job}/is"),
            variables={"PATH": os.environ["PATH"]},
            job_variables={"WSC_JOB": job},
            output=os.open(tmp_path / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600),
            user=JobUser.of(None, None),
            secret="known to the job's pods",
            preloaded=("numpy", "no_such_module", *preloaded),
        )

    return make


def wait_until(condition):
    waiting.wait_until(condition, seconds=120, what="the end or beginning of a process")


def run(command):
    """Run a program as pods do, which start it again if another pod's server has ended."""
    while True:
        process = start(command)
        try:
            return process.wait()
        except ForkServerEndedError as error:
            if error.exit_code is not None:
                raise
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
            search_path=({str(tmp_path)!r},), variables={{"PATH": os.environ["PATH"]}},
            job_variables={{"WSC_JOB": "wsjob-1"}},
            output=os.open({str(tmp_path / "log")!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT),
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
    wait_until(lambda: not is_alive(child))


def test_a_server_that_ends_at_once_tells_how(command, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no such module >&2\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(ForkServerEndedError) as caught:
        run(command("show", python=python))
    assert caught.value.exit_code == 3
    assert "no such module" in (tmp_path / "log").read_text()


def zygotes(tmp_path):
    """Return what has imported everything: its variables are those of no job."""
    path = str(tmp_path / "packages")
    every = psutil.process_iter()
    return [process for process in every if variables_of(process).get("PYTHONPATH") == path]


LIBRARY = {"preloaded": ("library",)}


def add(tmp_path, name, *, value=1):
    (tmp_path / "packages" / "__pycache__").mkdir(parents=True, exist_ok=True)
    (tmp_path / "packages" / name).write_text(f"VALUE = {value}")


def run_library(command, tmp_path, job):
    """Return what a program of another job finds, and the process that its server comes from."""
    assert run(command("library", job, job=job, **LIBRARY)) == 0
    path, found = (tmp_path / job).read_text().splitlines()
    assert path == f"['{tmp_path}/packages', '/where/{job}/is']"
    *found, zygote = found.split()
    return found, int(zygote)


def test_the_next_job_finds_what_is_imported_for_all_and_nothing_of_another(command, tmp_path):
    add(tmp_path, "library.py")
    found, zygote = run_library(command, tmp_path, "wsjob-1")
    assert run(command("import", **LIBRARY)) == 0
    assert run_library(command, tmp_path, "wsjob-2") == (found, zygote) == (["1", "False"], ANY)


def test_a_job_is_known_by_the_variables_of_its_processes(command, tmp_path):
    process, pid, child = waiting_program(command, tmp_path)
    server = psutil.Process(pid).ppid()
    for number in (server, pid, child):
        assert variables_of(psutil.Process(number))["WSC_JOB"] == "wsjob-1"
    path = variables_of(psutil.Process(child))["PYTHONPATH"]
    assert path == f"{tmp_path}/packages:/where/wsjob-1/is"
    (zygote,) = zygotes(tmp_path)
    assert "WSC_JOB" not in variables_of(zygote)
    assert os.getsid(zygote.pid) == zygote.pid
    process.kill()
    process.close()


@pytest.mark.parametrize("changed", ["library.py", "another.py"])
def test_what_has_changed_since_it_was_imported_is_imported_anew(command, tmp_path, changed):
    add(tmp_path, "library.py")
    _, zygote = run_library(command, tmp_path, "wsjob-1")
    add(tmp_path, changed, value=1000)
    found, another = run_library(command, tmp_path, "wsjob-2")
    assert found[0] == ("1000" if changed == "library.py" else "1")
    assert another != zygote
    wait_until(lambda: not is_alive(zygote))


def test_no_program_begins_for_a_pod_that_has_given_up_while_all_was_imported(command, tmp_path):
    add(tmp_path, "library.py")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "packages" / "library.py").write_text(f"open({str(gate)!r}).read()\nVALUE = 1")
    kept, given_up, last = (
        start(command("library", job, job=job, **LIBRARY)) for job in ("a", "b", "c")
    )
    given_up.kill()
    given_up.close()
    gate.write_text("")
    for process in (kept, last):
        assert process.wait() == 0
        process.close()
    assert (tmp_path / "c").read_text()
    assert not (tmp_path / "b").read_text()


def test_a_zygote_that_nobody_needs_ends(command, tmp_path, monkeypatch):
    monkeypatch.setattr(user_processes, "_IDLE_SECONDS", 0.1)
    process, pid, _ = waiting_program(command, tmp_path)
    server = psutil.Process(pid).ppid()
    wait_until(lambda: not zygotes(tmp_path))
    assert is_alive(server)
    assert is_alive(pid)
    process.kill()
    process.close()
    wait_until(lambda: not is_alive(server))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
@pytest.mark.parametrize("how", ["listens", "holds", "fills"])
@pytest.mark.parametrize("address", ["_job_address", "_zygote_address"])
def test_what_another_user_does_at_an_address_stops_nobody(command, tmp_path, how, address):
    stranger = f"""
        import os, socket, sys
        os.setresuid(65534, 65534, 65534)
        taken = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        taken.bind(bytes.fromhex(sys.argv[1]))
        if {how!r} != "holds":
            taken.listen(0)
        if {how!r} == "fills":
            waiting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            waiting.connect(bytes.fromhex(sys.argv[1]))
        print("ready", flush=True)
        sys.stdin.read()
    """
    taken = getattr(user_processes, address)(command("show"), 0).encode().hex()
    arguments = [sys.executable, "-c", textwrap.dedent(stranger), taken]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        assert run(command("show")) == 0
        process.stdin.close()
    assert (tmp_path / "log").read_text().startswith("__main__ True")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_nobody_else_has_programs_forked_where_imports_are_kept(command, tmp_path):
    """Another user asks what keeps a user's imports, and the server of a job, for a program."""
    process, *_ = waiting_program(command, tmp_path)
    stranger = """
        import json, os, socket, sys
        os.setresuid(65534, 65534, 65534)
        program = {"module": "this", "arguments": [], "directory": "/"}
        server = {"variables": {}, "search_path": ["/"]}
        log = os.memfd_create("log")
        for address in map(bytes.fromhex, sys.argv[1:]):
            for order, descriptors in ((program, [log]), (server, [log, log])):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
                    end.connect(address)
                    try:
                        socket.send_fds(end, [json.dumps(order).encode()], descriptors)
                        answer = end.recv(4096)
                    except OSError:
                        answer = b""
                    assert not answer, answer
        assert not os.fstat(log).st_size
    """
    addresses = (user_processes._job_address, user_processes._zygote_address)
    told = [address_of(command("wait"), 0).encode().hex() for address_of in addresses]
    subprocess.run([sys.executable, "-c", textwrap.dedent(stranger), *told], check=True)
    process.kill()
    process.close()
