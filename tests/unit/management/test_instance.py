"""Who is the appliance of a data directory, while others look."""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import threading

import pytest

from appliance.core.errors import ClusterError, ConflictError
from appliance.management.store.instance import Instance, InstanceState, started_at

WORDS = dict.fromkeys(("address", "rest_url", "config_path", "runtime_root"), "")
HOLDER = """
import os, sys
from pathlib import Path
from appliance.management.store.instance import Instance, InstanceState, started_at
instance, me = Instance(Path(sys.argv[1])), os.getpid()
instance.acquire()
words = dict.fromkeys(("address", "rest_url", "config_path", "runtime_root"), "")
instance.write_state(InstanceState(pid=me, started=started_at(me), num_systems=1, **words))
print(flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def somebody_looking(data_dir):
    begun, is_over = threading.Event(), threading.Event()

    def look():
        while not is_over.is_set():
            Instance(data_dir).is_running()
            begun.set()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_second_appliance_of_a_data_directory_is_refused(tmp_path):
    assert not Instance(tmp_path).is_running()
    Instance(tmp_path).acquire()
    assert Instance(tmp_path).is_running()
    with pytest.raises(ConflictError, match="already runs on"):
        Instance(tmp_path).acquire()


def test_whoever_only_looks_keeps_nobody_from_starting(tmp_path):
    for number in range(50):
        data_dir = tmp_path / str(number)
        data_dir.mkdir()
        (data_dir / "appliance.lock").touch()
        with somebody_looking(data_dir):
            Instance(data_dir).acquire()


@pytest.fixture
def holder(tmp_path):
    """Somebody who is the appliance of `tmp_path`, until a signal ends them."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_an_appliance_is_found_and_ended_whichever_of_its_files_is_gone(tmp_path, holder):
    for name in ("appliance.lock", "appliance.json"):
        kept = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        assert Instance(tmp_path).is_running()
        with pytest.raises(ConflictError, match="already runs on"):
            Instance(tmp_path).acquire()
        (tmp_path / name).write_bytes(kept)
    (tmp_path / "appliance.lock").unlink()
    assert Instance(tmp_path).stop()
    assert holder.wait() < 0
    assert not Instance(tmp_path).is_running()


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"pid": "1"}', '{"pid": -1}'])
def test_nobody_says_down_while_a_process_runs_that_cannot_be_named(tmp_path, text):
    Instance(tmp_path).acquire()
    if text is not None:
        (tmp_path / "appliance.json").write_text(text)
    with pytest.raises(ClusterError, match="does not say which process it is"):
        Instance(tmp_path).stop()


def test_a_process_that_has_the_id_of_an_earlier_appliance_is_left_alone(tmp_path):
    state = InstanceState(pid=os.getpid(), started=1, num_systems=1, **WORDS)
    Instance(tmp_path).write_state(state)
    assert not Instance(tmp_path).is_running()
    Instance(tmp_path).acquire()
    with pytest.raises(ClusterError, match="or the appliance is starting"):
        Instance(tmp_path).stop()


def test_an_appliance_that_has_published_itself_runs_without_any_lock(tmp_path):
    me = os.getpid()
    state = InstanceState(pid=me, started=started_at(me), num_systems=1, **WORDS)
    Instance(tmp_path).write_state(state)
    assert Instance(tmp_path).is_running()
    assert not Instance(tmp_path / "elsewhere").is_running()


def test_a_file_system_that_locks_no_directory_keeps_the_lock_of_a_file(tmp_path, monkeypatch):
    lock = fcntl.flock

    def refuse_directories(descriptor, how):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(9, "Bad file descriptor")
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", refuse_directories)
    Instance(tmp_path).acquire()
    assert Instance(tmp_path).is_running()
    with pytest.raises(ConflictError):
        Instance(tmp_path).acquire()


def test_many_who_look_take_no_other_for_an_appliance(tmp_path):
    (tmp_path / "appliance.lock").touch()
    with somebody_looking(tmp_path), somebody_looking(tmp_path):
        assert not any(Instance(tmp_path).is_running() for _ in range(200))


@pytest.mark.parametrize(
    "change",
    [{"pid": 0}, {"pid": True}, {"pid": 1.5}, {"started": "x"}, {"address": 5}, {"more": 1}],
)
def test_a_state_that_we_did_not_write_is_none(tmp_path, change):
    state = InstanceState(pid=1, num_systems=1, **WORDS)
    Instance(tmp_path).write_state(state)
    fields = json.loads((tmp_path / "appliance.json").read_text())
    (tmp_path / "appliance.json").write_text(json.dumps({**fields, **change}))
    assert Instance(tmp_path).find_state() is None


def test_what_an_appliance_said_is_believed_where_a_group_shares_its_files(tmp_path):
    """Nodes with agents and containers share theirs, so that what is written is the group's too."""
    state = InstanceState(pid=1, num_systems=1, **WORDS)
    before = os.umask(0o007)
    try:
        Instance(tmp_path).write_state(state)
    finally:
        os.umask(before)
    assert Instance(tmp_path).find_state() == state
