"""How the process of csctl starts and ends."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

UNUSED = """
import sys, types
from csctl import __main__ as start
start._leave_for_later()
import grpc
import csctl.connection.client
waiting = ("asyncio", "grpc.aio", "google.protobuf.internal.python_message")
assert not any(type(sys.modules[name]) is types.ModuleType for name in waiting)
assert "asyncio.events" not in sys.modules
import asyncio

async def work():
    async with grpc.aio.insecure_channel("localhost:1") as channel:
        return channel.get_state()

assert asyncio.run(work()) is grpc.ChannelConnectivity.IDLE
assert all(type(sys.modules[name]) is types.ModuleType for name in waiting[:2])
"""


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_csctl_does_not_use_is_loaded_when_somebody_does() -> None:
    answer = run("-c", UNUSED)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_the_process_ends_with_all_it_has_printed_and_the_code_of_the_command() -> None:
    help_text = run("-m", "csctl", "get", "jobs", "--help")
    assert (help_text.returncode, help_text.stderr) == (0, "")
    assert help_text.stdout.endswith("\n")
    assert "--sort-by" in help_text.stdout
    refused = run("-m", "csctl", "get", "jobs", "--csconfig", "/dev/null")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "/dev/null is not JSON" in refused.stderr


FROM_THREADS = """
import threading
from csctl import __main__ as start
start._leave_for_later()
import grpc
import asyncio
barrier, found = threading.Barrier(4), []

def ask():
    barrier.wait()
    found.append(asyncio.iscoroutinefunction(ask))

threads = [threading.Thread(target=ask) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert found == [False] * 4, found
"""


def test_several_threads_may_be_the_first_to_use_a_module() -> None:
    answer = run("-c", FROM_THREADS)
    assert (answer.returncode, answer.stderr) == (0, "")


def run_in_shell(redirections: str) -> "subprocess.CompletedProcess[str]":
    unbuffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    return subprocess.run(
        f"{sys.executable} -m csctl get jobs --help {redirections}",
        shell=True,
        cwd=ROOT,
        env=unbuffered,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_output_that_finds_no_room_is_said_in_a_sentence() -> None:
    answer = run_in_shell(">/dev/full")
    assert answer.returncode == 4
    assert answer.stderr.startswith("Error: csctl failed: OSError(28")
    assert "Traceback" not in answer.stderr


def test_a_closed_error_stream_is_nobody_s_fault() -> None:
    answer = run_in_shell("2>&-")
    assert (answer.returncode, answer.stdout.splitlines()[-1:] != []) == (0, True)
