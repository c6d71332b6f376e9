"""Logs that programs of a user write to by a pipe."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from appliance.user_code import piped_log
from appliance.user_code.piped_log import PipedLog
from tests.support.waiting import wait_until

ATTACK = """
import os
for attempt in (
    lambda: os.truncate(1, 1 << 42),
    lambda: os.truncate(1, 0),
    lambda: os.lseek(1, 1 << 42, os.SEEK_SET),
    lambda: os.pwrite(1, b"at the front", 0),
    lambda: os.posix_fallocate(1, 0, 1 << 30),
    lambda: os.sendfile(1, 1, 0, 10),
):
    try:
        attempt()
    except OSError as error:
        print(type(error).__name__, flush=True)
"""


def run(log: PipedLog, script: str) -> None:
    subprocess.run([sys.executable, "-c", script], stdout=log.writer, stderr=log.writer, check=True)


def test_a_program_can_print_to_its_log_and_do_nothing_else_with_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("of an earlier program\n")
    log = PipedLog(path, "a test")
    run(log, ATTACK)
    text = log.tail(4096)
    assert text == "of an earlier program\n" + "OSError\n" * 6
    assert path.stat().st_size == len(text)
    log.close()


def test_the_tail_has_all_that_a_program_printed_before_it_ended(tmp_path: Path) -> None:
    log = PipedLog(tmp_path / "log", "a test")
    for number in range(20):
        run(log, f"print({number})")
        assert log.tail(100).splitlines()[-1] == str(number)
    assert log.tail(3) == "19\n"
    log.close()


def test_a_closed_log_takes_what_its_last_program_prints(tmp_path: Path) -> None:
    log = PipedLog(tmp_path / "log", "a test")
    begin, command = os.pipe(), [sys.executable, "-c", "input(); print('late')"]
    process = subprocess.Popen(command, stdin=begin[0], stdout=log.writer)
    log.close()
    log.close()
    os.write(begin[1], b"\n")
    assert process.wait() == 0
    thread = log._thread
    thread.join(60)
    assert not thread.is_alive()
    assert (tmp_path / "log").read_text() == "late\n"
    assert log.tail(100) == "late\n"
    os.close(begin[0])
    os.close(begin[1])


def test_a_program_that_prints_without_end_waits_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped_log, "_BYTES_PER_SECOND", 1 << 10)
    log = PipedLog(tmp_path / "log", "a test")
    process = subprocess.Popen(["yes"], stdout=log.writer)
    path = tmp_path / "log"
    wait_until(lambda: path.stat().st_size > 0, seconds=60, what="what is printed first")
    begun = time.monotonic()
    assert log.tail(100, wait_seconds=0.2).count("y") >= 49
    log.close(wait_seconds=0.2)
    assert time.monotonic() - begun < 30
    assert path.stat().st_size <= 4 * (1 << 16)
    process.kill()
    process.wait()


def test_a_full_disk_ends_no_program(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to("/dev/full")
    log = PipedLog(tmp_path / "log", "a test")
    run(log, "print('x' * 200_000)")
    log.close()


def test_nobody_inherits_a_log_unasked(tmp_path: Path) -> None:
    log = PipedLog(tmp_path / "log", "a test")
    assert fcntl.fcntl(log.writer, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    assert stat.S_ISFIFO(os.fstat(log.writer).st_mode)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.read(log.writer, 1)
    num_threads = threading.active_count()
    log.close()
    log._thread.join(60)
    assert threading.active_count() == num_threads - 1
