"""How many files of management one submission crosses, from its call to the launch of its pods.

Whoever changes the path of a submission reads those files. The bound is what there are: it may be
lowered with them, and is raised for nothing.
"""

import asyncio
import signal
import subprocess
import sys

import grpc
import grpc.aio
import pytest

from benchmarks.throughput.load import EXECUTE, USER
from protos.cluster import cluster_pb2_grpc
from protos.wsc.v1 import drivers_pb2, drivers_pb2_grpc

TRACED = """
import signal, sys, threading
from pathlib import Path
from appliance.management.store.own_process import run_event_loop
from benchmarks.throughput.noop import serve

is_on, crossed = False, set()
ROOT = "/appliance/management/"
OWN = ("MainThread", "reconciler", "rpc")  # not what goes on in the background

def note(frame, event, _):
    path = frame.f_code.co_filename
    if is_on and event == "call" and ROOT in path:
        if threading.current_thread().name.startswith(OWN):
            crossed.add(path.partition(ROOT)[2])

def toggle(*_):
    global is_on
    is_on = not is_on
    if not is_on:
        print(*sorted(crossed), flush=True)
    else:
        print("on", flush=True)

signal.signal(signal.SIGUSR1, toggle)
threading.setprofile(note)
sys.setprofile(note)
run_event_loop(serve(Path(sys.argv[1]), 4))
"""


async def submit(channel, kind):
    if kind == "execute":
        stub = cluster_pb2_grpc.ClusterManagementStub(channel)
        await stub.InitExecuteJob(EXECUTE, metadata=USER)
    else:
        run = drivers_pb2.SubmitDriverRequest(argv=["true"], work_dir="/tmp")
        await drivers_pb2_grpc.DriversStub(channel).SubmitDriver(run, metadata=USER)


async def crossed_files(management, kind):
    """Return the files that three submissions cross; one alone may end before its launch."""
    crossed = set()
    async with grpc.aio.insecure_channel(management.stdout.readline().strip()) as channel:
        await submit(channel, kind)  # the first one connects, reads and imports
        for _ in range(3):
            management.send_signal(signal.SIGUSR1)
            assert management.stdout.readline().strip() == "on"
            await submit(channel, kind)
            management.send_signal(signal.SIGUSR1)
            crossed.update(management.stdout.readline().split())
    return crossed


@pytest.mark.parametrize(("kind", "most"), [("execute", 38), ("detached", 35)])
def test_a_submission_crosses_few_files_of_management(tmp_path, kind, most):
    command = [sys.executable, "-c", TRACED, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as management:
        crossed = asyncio.run(crossed_files(management, kind))
        management.stdin.close()
        assert management.wait(timeout=60) == 0
    assert len(crossed) <= most, " ".join(sorted(crossed))
