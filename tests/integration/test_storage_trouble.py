"""What an appliance says when its disk or its database cannot be used, and how it goes on."""

import os
import pty
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from appliance.management.store.instance import Instance
from protos.cluster import cluster_pb2 as pb
from tests.support.appliance_process import (
    ApplianceProcess,
    run_command,
    running_appliance,
    wait_for,
)
from tests.support.disks import fill, remount, small_disk
from tests.support.processes import is_alive
from tests.support.rest import mint, rest_client

PAGE_BYTES = 4096


@pytest.fixture
def data_dir(tmp_path):
    """The data directory of an appliance that has run before."""
    appliance = ApplianceProcess(tmp_path / "data", ("--systems", "1"))
    appliance.up()
    appliance.down()
    return appliance.data_dir


def start_in_vain(data_dir):
    """Return what `appliance up` says when it cannot start."""
    answer = run_command("up", "--data-dir", str(data_dir), "--port", "0", "--rest-port", "0")
    assert answer.returncode == 3, answer.stdout
    assert "Traceback" not in answer.stderr
    return answer.stderr


@pytest.mark.slow
def test_a_lost_or_damaged_database_keeps_the_appliance_down_and_says_what_to_do(data_dir):
    path = data_dir / "state.db"
    whole = path.read_bytes()

    path.write_bytes(b"")
    assert f"The database {path} is empty (0 bytes)" in start_in_vain(data_dir)
    path.unlink()
    assert f"The database {path} is gone" in start_in_vain(data_dir)
    assert not path.exists()

    half = len(whole) // 2 // PAGE_BYTES * PAGE_BYTES
    path.write_bytes(whole[:half] + os.urandom(4 * PAGE_BYTES) + whole[half + 4 * PAGE_BYTES :])
    complaint = start_in_vain(data_dir)
    assert f"The database {path} is damaged" in complaint
    assert "appliance restore FILE" in complaint
    # Whoever looks into the log finds the same.
    assert "is damaged" in Instance(data_dir).log_path.read_text()


@pytest.mark.slow
def test_a_disk_that_is_full_or_read_only_keeps_the_appliance_down_and_says_so(tmp_path):
    with small_disk(tmp_path / "disk", mib=32) as disk:
        fill(disk)
        complaint = start_in_vain(disk / "data")
        assert "No space left on device" in complaint or "cannot grow" in complaint
        (disk / "filler").unlink()
        remount(disk, "ro")
        complaint = start_in_vain(disk / "data")
        assert "Read-only file system" in complaint
        assert "mounted for writing" in complaint


@pytest.mark.slow
def test_a_management_whose_mapped_file_is_cut_leaves_a_line_and_can_be_started_again(tmp_path):
    appliance = ApplianceProcess(tmp_path / "data", ("--systems", "1"))
    try:
        appliance.up()
        management = appliance.state.pid
        os.truncate(appliance.data_dir / "state.db-shm", 0)
        wait_for(lambda: not is_alive(management))
        assert "Fatal Python error: Bus error" in appliance.log()
        status = run_command("status", "--data-dir", str(appliance.data_dir))
        assert f"Its process {management} was killed or crashed" in status.stdout
        appliance.up()
        assert appliance.submit_compile()
        with closing(sqlite3.connect(appliance.data_dir / "state.db")) as connection:
            assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
    finally:
        appliance.down()


@pytest.mark.slow
def test_a_disk_that_runs_full_stops_admissions_and_nothing_else_until_there_is_space(tmp_path):
    with (
        small_disk(tmp_path / "disk", mib=512) as disk,
        running_appliance(disk / "data", "--systems", "2") as appliance,
        rest_client(appliance) as rest,
    ):

        def queue():
            return rest.get("queue").json()

        running = appliance.submit_execute(1)
        assert appliance.wait_ready(running)[-1].is_ready
        fill(disk, leave_bytes=20 << 20)  # below a twentieth
        wait_for(lambda: queue()["stopped"], what="stopped admissions")
        waiting = appliance.submit_execute(1)
        wait_for(lambda: queue()["items"], what="the job in the queue")
        (entry,) = queue()["items"]
        assert (entry["job"]["id"], entry["waiting"]["kind"]) == (waiting, "Stopped")
        assert f"the disk of {disk / 'data'} has" in entry["waiting"]["reason"]
        request = pb.GetJobInitStatusRequest(job_id=waiting)
        assert "MiB must be" in appliance.cluster.GetJobInitStatus(request).status
        assert appliance.status(running).status == pb.JOB_STATUS_IN_PROGRESS
        (disk / "filler").unlink()
        assert appliance.wait_ready(waiting)[-1].is_ready
        states = [
            event["details"]["state"]
            for event in rest.get("system-events").json()["items"]
            if event["system"] == "appliance"
        ]
        assert states == ["admissions-stopped", "admissions-resumed"]


@pytest.mark.slow
def test_a_backup_of_a_running_appliance_brings_a_damaged_one_back(tmp_path):
    data_dir, target = tmp_path / "data", str(tmp_path / "backup.tar")
    appliance = ApplianceProcess(data_dir, ("--systems", "1", "--tls", "--tokens"))
    place = ("--data-dir", str(data_dir))
    try:
        appliance.up()
        token = mint(appliance, "ada", "--uid", "1000")
        with rest_client(appliance, token) as rest:
            assert rest.get("queue").status_code == 200
        answer = run_command("backup", target, *place)
        assert answer.returncode == 0, answer.stderr
        assert "(sqlite, revision" in answer.stdout
        refused = run_command("restore", target, "--replace", *place)
        assert refused.returncode == 2
        assert "already runs on" in refused.stderr
        appliance.down()
        os.truncate(data_dir / "state.db", 20_000)
        (data_dir / "token.key").unlink()
        assert "is damaged" in start_in_vain(data_dir)
        assert "--replace" in run_command("restore", target, *place).stderr
        answer = run_command("restore", target, "--replace", *place)
        assert answer.returncode == 0, answer.stderr
        appliance.up()
        with rest_client(appliance, token) as rest:
            assert rest.get("queue").status_code == 200
    finally:
        appliance.down()


def test_a_backup_goes_through_pipes_and_not_to_terminals(data_dir, tmp_path):
    command, place = [sys.executable, "-m", "appliance"], ["--data-dir", str(data_dir)]
    made = subprocess.run([*command, "backup", "-", *place], capture_output=True, check=True)
    assert made.stderr.startswith(b"Written: a backup of ")
    os.truncate(data_dir / "state.db", 0)
    before = sorted(data_dir.iterdir())
    restore = [*command, "restore", "-", *place]
    cut = subprocess.run(restore, input=made.stdout[:-20_000], capture_output=True, check=False)
    assert cut.returncode == 2
    assert b"is no whole backup of an appliance" in cut.stderr
    assert sorted(data_dir.iterdir()) == before
    subprocess.run([*restore, "--replace"], input=made.stdout, check=True)
    appliance = ApplianceProcess(data_dir, ("--systems", "1"))
    appliance.up()
    appliance.down()

    ours, terminal = pty.openpty()
    try:
        for stream, words in (("stdout", "backup"), ("stdin", "restore")):
            refused = subprocess.run(
                [*command, words, "-", *place],
                **{stream: terminal},
                stderr=subprocess.PIPE,
                check=False,
            )
            assert refused.returncode == 2
            assert b"a terminal" in refused.stderr
    finally:
        os.close(ours)
        os.close(terminal)
