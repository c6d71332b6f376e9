"""What the appliance is told, and what it makes, is nothing for other users of the machine."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from protos.csctl import api_pb2
from tests.support.appliance_process import (
    ROOT,
    USER,
    ApplianceProcess,
    run_command,
    wait_for,
    wait_pods,
)
from tests.support.entry_points.written_files import FILES
from tests.support.processes import command_of

SECRET = "s3cret-of-the-options"


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    """A running appliance on a directory that was open to all, started by somebody careless."""
    data = tmp_path_factory.mktemp("data")
    data.chmod(0o755)
    before = os.umask(0)
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://user:{SECRET}@localhost:1"
    running = ApplianceProcess(data, ("--systems", "1"), is_forked=False)
    try:
        running.up()
        yield running
    finally:
        running.down()
        os.umask(before)
        del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]


def test_no_command_line_shows_what_the_appliance_was_told(appliance):
    ours = psutil.Process(appliance.state.pid)
    shown = [command_of(process) for process in (ours, *ours.children(recursive=True))]
    assert "serve" in shown[0]
    assert not [words for words in shown if any(SECRET in word for word in words)]


def test_nothing_that_the_appliance_has_made_is_open_to_others(appliance):
    job = appliance.submit_execute()
    appliance.wait_ready(job)
    wait_pods(job, 6)
    export = api_pb2.CreateLogExportRequest(name=job)
    made = appliance.csctl.CreateLogExport(export, metadata=USER).export_id
    wait_for((appliance.data_dir / "exports" / f"{made}.zip").exists)
    runtime_root = Path(appliance.state.runtime_root)
    found = [
        (path, path.lstat())
        for root in (appliance.data_dir, runtime_root)
        for path in (root, *root.rglob("*"))
    ]
    found += [(path, path.lstat()) for path in Path("/dev/shm").glob(f"*{job}*")]
    names = {path.name for path, _ in found}
    assert names >= {"state.db", "token.key", "coordinator-0.log", "launcher.sock", f"{made}.zip"}
    open_to_others = [
        f"{path} {status.st_mode:o}"
        for path, status in found
        if status.st_mode & (0o066 if stat.S_ISDIR(status.st_mode) else 0o077)
    ]
    assert open_to_others == []
    passable = {path for path, status in found if status.st_mode & stat.S_IXOTH}
    assert passable == ({runtime_root, runtime_root / job} if os.geteuid() == 0 else set())


def test_the_table_of_files_says_their_modes(appliance):
    named = {
        appliance.data_dir / file.place.removeprefix("DATA/"): file
        for file in FILES
        if file.place.startswith("DATA/")
    }
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in named if path.exists()}
    assert {path.name for path in found} >= {"config_v2", "token.key", "appliance.json"}
    assert found == {path: named[path].mode for path in found}


def test_a_password_of_a_receiver_of_traces_is_refused_too():
    answer = run_command("up", "--otlp", f"http://ada:{SECRET}@collector:4318")
    assert answer.returncode == 2
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in " ".join(answer.stderr.replace("\u2502", " ").split())
    assert SECRET not in answer.stdout + answer.stderr


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://ada:{SECRET}@db/wsc",
        f"postgresql+psycopg://:{SECRET}/with@db:5432/wsc",
        f"postgresql+psycopg://ada@db/wsc?sslmode=require&password={SECRET}",
        f"postgresql+psycopg://ada@db/wsc?sslpassword={SECRET}",
    ],
)
def test_a_password_on_the_command_line_is_refused_and_not_repeated(tmp_path, url):
    for command in (("up",), ("proxy", "--management", "h:1"), ("backup", str(tmp_path / "b"))):
        answer = run_command(*command, "--database", url)
        assert answer.returncode == 2
        assert "WSC_DATABASE" in " ".join(answer.stderr.split())
        assert SECRET not in answer.stdout + answer.stderr


def test_a_management_that_begins_anew_reads_its_options_again():
    program = """
import os, sys
from appliance.management.store.own_process import start_again

print(os.pread(int(sys.argv[2]), 100, 0).decode(), len(sys.argv), flush=True)
if len(sys.argv) == 4:
    start_again()
"""
    told = os.memfd_create("options")
    os.write(told, b"the options")
    finished = subprocess.run(
        [sys.executable, "-c", program, "serve", str(told), "5"],
        cwd=ROOT,
        pass_fds=[told],
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(told)
    assert finished.stdout.splitlines() == ["the options 4", "the options 3"], finished.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another's directory")
def test_nothing_is_started_where_a_stranger_has_made_the_directory_for_sockets(tmp_path):
    """Its name can be guessed; who owns it could answer in our place, or be the fork server."""
    data, runtime = tmp_path / "data", Path(tempfile.mkdtemp(prefix="wsc-r", dir="/tmp"))
    digest = hashlib.sha256(str(data).encode()).hexdigest()[:8]
    trap = runtime / f"wsc-{digest}"
    try:
        trap.mkdir()
        trap.chmod(0o777)
        os.chown(trap, 65534, 65534)
        runtime.chmod(0o1777)
        arguments = ("up", "--data-dir", str(data), "--port", "0", "--rest-port", "0")
        answer = subprocess.run(
            [sys.executable, "-m", "appliance", *arguments],
            cwd=ROOT,
            env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        told = answer.stdout + answer.stderr
        assert answer.returncode != 0, told
        assert f"{trap}, the directory for sockets, is no directory of user 0" in told
        assert "Traceback" not in told
        assert list(trap.iterdir()) == []
    finally:
        shutil.rmtree(runtime)
