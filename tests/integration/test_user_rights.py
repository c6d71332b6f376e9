"""Programs of a job's user have the user's rights alone, and cannot borrow ours."""

import os
import socket
import stat
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.core.errors import PodFailedError, UserError
from appliance.core.ids import JobId
from appliance.pods.job_user import JobUser
from appliance.user_code import user_exec
from appliance.user_code.client_programs import UserEnvironment, UserProgram, user_environment
from appliance.user_code.user_exec import CannotStartError, Order
from protos.cluster.cluster_pb2 import ExecuteJobRequest
from tests.support.processes import is_alive
from tests.support.waiting import wait_until

OTHER = 64_123
"""Id of a user and a group that nobody has."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs programs as other users")


@pytest.fixture
def place(tmp_path):
    """A directory that everybody can get to, which pytest's own is not."""
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_uid == os.geteuid() and not each.stat().st_mode & stat.S_IXOTH:
            each.chmod(stat.S_IMODE(each.stat().st_mode) | stat.S_IXOTH)
    return tmp_path


def order_of(program, *arguments, directory="/", programs=(), uid=None, **environment):
    return Order(
        programs=programs or (str(program),),
        arguments=arguments,
        environment={"PATH": "/usr/bin:/bin", **environment},
        directory=str(directory),
        uid=uid,
        gid=uid,
        groups=() if uid is None else (uid, uid + 1),
    )


def said_by(order, log):
    """Return what a program prints, and how it ends."""
    with log.open("wb") as file:
        process = user_exec.start(order, output=file.fileno())
    return process.wait(), log.read_text()


@as_root
def test_a_program_has_the_users_ids_and_variables_and_nothing_of_ours(place):
    script = "id -u; id -g; id -G; umask; pwd; env; ls /proc/self/fd | wc -l"
    home = place / "home"
    home.mkdir()
    order = order_of("/bin/sh", "-c", script, directory=home, uid=OTHER, MINE="a=b")
    code, text = said_by(order, place / "log")
    told = text.split("\n")
    assert code == 0
    assert told[:5] == ["64123", "64123", "64123 64124", "0022", str(home)]
    variables = {line.partition("=")[0] for line in told[5:-2]} - {"PWD", "OLDPWD", "_", "SHLVL"}
    assert variables == {"PATH", "MINE"}
    assert int(told[-2]) == 4  # 0, 1, 2 and the directory that ls itself reads


@as_root
def test_variables_of_the_user_do_not_reach_what_still_has_our_rights(place):
    trap = place / "sitecustomize.py"
    trap.write_text(f"import os; open({str(place / 'uids')!r}, 'a').write(str(os.getuid()))")
    order = order_of("/bin/true", uid=OTHER, PYTHONPATH=str(place), LD_PRELOAD="/no/such.so")
    _, text = said_by(order, place / "log")
    assert not (place / "uids").exists()
    assert "uid" not in text


@as_root
def test_a_directory_below_one_that_is_closed_to_the_user_cannot_be_entered(place):
    hidden = place / "closed" / "open"
    hidden.mkdir(parents=True)
    hidden.parent.chmod(0o700)
    with pytest.raises(CannotStartError, match=f"{hidden} cannot be entered by user {OTHER}"):
        said_by(order_of("/bin/true", directory=hidden, uid=OTHER), place / "log")


@as_root
def test_a_script_whose_interpreter_is_closed_to_the_user_is_not_blamed(place):
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    (closed / "python").symlink_to("/bin/sh")
    script = place / "train.py"
    script.write_text(f"#!{closed}/python\n")
    script.chmod(0o755)
    with pytest.raises(CannotStartError, match=f"names the interpreter {closed}/python, which"):
        said_by(order_of(script, uid=OTHER), place / "log")


def test_the_first_program_that_can_be_run_is_and_a_missing_one_is_told_apart(tmp_path):
    (tmp_path / "denied").write_text("")
    (tmp_path / "denied").chmod(0o644)
    paths = tuple(str(tmp_path / name) for name in ("none", "denied"))
    code, _ = said_by(order_of("", programs=(*paths, "/bin/true")), tmp_path / "log")
    assert code == 0
    with pytest.raises(CannotStartError, match="denied cannot be run") as denied:
        said_by(order_of("", programs=paths), tmp_path / "log")
    with pytest.raises(CannotStartError, match=r"there is no .*none") as missing:
        said_by(order_of("", programs=paths[:1]), tmp_path / "log")
    assert (denied.value.is_missing, missing.value.is_missing) == (False, True)


def test_what_no_program_can_be_given_is_told_as_such(tmp_path):
    with pytest.raises(CannotStartError, match=r"nothing can be run as user .*surrogates"):
        said_by(order_of("/bin/true", "\ud800"), tmp_path / "log")


@pytest.mark.parametrize("uid", [None, pytest.param(OTHER, marks=as_root)])
def test_a_program_dies_with_the_pod(place, uid):
    pod = f"""
        import signal
        from appliance.user_code import user_exec
        order = user_exec.Order(programs=("/bin/sleep",), arguments=("600",), environment={{}},
            directory="/", uid={uid}, gid={uid}, groups=())
        print(user_exec.start(order).pid, flush=True)
        signal.pause()
    """
    command = [sys.executable, "-c", textwrap.dedent(pod)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert is_alive(pid)
        process.kill()
    wait_until(lambda: not is_alive(pid), seconds=60, what="the end of the program")


@as_root
def test_what_the_file_system_is_asked_for_a_user_is_answered_with_their_rights(place):
    secret = place / "secret"
    secret.write_text("ours")
    secret.chmod(0o600)
    user = JobUser(uid=OTHER, gid=OTHER, groups=(), name="other", home="/")
    with pytest.raises(PermissionError):
        user.look(secret.read_text)
    assert secret.read_text() == "ours"


@as_root
def test_an_interpreter_that_only_we_can_see_is_not_there_for_the_user(place):
    packages = place / "closed" / "lib" / "python3.11" / "site-packages"
    (place / "closed" / "bin").mkdir(parents=True)
    (place / "closed" / "bin" / "python3.11").symlink_to("/bin/sh")
    (place / "closed").chmod(0o700)
    request = ExecuteJobRequest()
    request.user_sidecar_env.python_path = str(packages)
    assert user_environment(request, uid=0).python.name == "python3.11"
    with pytest.raises(UserError, match="with the rights of the job's user"):
        user_environment(request, uid=OTHER)


class Hostile:
    """A program whose "interpreter" is the user's own and does what it likes."""

    def __init__(self, place: Path, script: str) -> None:
        self.runtime = place / "r"
        self.runtime.mkdir(mode=0o711)
        self.directory = self.runtime / "streamer-0"
        python = place / "python"
        python.write_text(f"#!/bin/sh\n{script}\nexec sleep 600\n")
        python.chmod(0o755)
        uid = OTHER if os.geteuid() == 0 else None
        user = JobUser(uid=uid, gid=uid, groups=(), name="other", home="/")
        self.environment = UserEnvironment(
            python=python, search_path=(str(self.directory),), user=user
        )
        self.log = place / "log"

    def start(self) -> UserProgram:
        return UserProgram(
            JobId("wsjob-a"),
            "Input worker 0",
            self.environment,
            module="none",
            details=lambda address: address,
            directory=self.directory,
            log_path=self.log,
        )


def test_we_never_call_a_socket_that_a_program_has_only_linked_to(place):
    with socket.socket(socket.AF_UNIX) as other_job:
        other_job.bind(str(place / "other.sock"))
        other_job.listen()
        other_job.settimeout(0)
        hostile = Hostile(place, f'ln -s {place}/other.sock "$PYTHONPATH/s"')
        program = hostile.start()
        with pytest.raises(PodFailedError, match="put something else where its socket belongs"):
            program.wait_until_ready(60)
        program.stop()
        with pytest.raises(BlockingIOError):
            other_job.accept()


def test_a_program_has_what_an_administrator_gives_its_pod_and_our_path_and_user(place):
    hostile = Hostile(place, 'echo "$SITE for $USER on $PATH."')
    given = {"SITE": "east", "PATH": "/nowhere", "USER": "root"}
    hostile.environment = replace(hostile.environment, variables=given)
    program = hostile.start()
    wait_until(lambda: "." in hostile.log.read_text(), seconds=60, what="what it prints")
    program.stop()
    assert f"east for other on {place}:/usr/local/bin" in hostile.log.read_text()


def test_what_a_program_leaves_in_its_directory_is_not_written_to_when_it_starts_again(place):
    victim = place / "victim"
    victim.write_text("ours")
    hostile = Hostile(place, "true")
    hostile.directory.mkdir()
    (hostile.directory / "details.json").symlink_to(victim)
    before = victim.stat()
    program = hostile.start()
    details = hostile.directory / "details.json"
    assert details.read_text() == f"unix:{hostile.directory}/s"
    program.stop()
    assert (victim.read_text(), victim.stat().st_uid) == ("ours", before.st_uid)
    assert not hostile.directory.exists()
