"""The first process of a container runs one pod, and is seen only by what it passes on."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from appliance.core.clock import SystemClock
from appliance.core.ids import JobId, Role
from appliance.core.pods.pod_spec import PodSpec
from appliance.management.pods.inner_listener import JobKeys, open_inner_listener
from protos.wsc.v1 import management_pb2, management_pb2_grpc
from tests.support.appliance import ROOT
from tests.support.waiting import wait_until


class Starts(management_pb2_grpc.ManagementServicer):
    """A management that answers in turn whether pods may start."""

    def __init__(self, *, answers):
        self._answers, self.asked = answers, []

    def AskStart(self, request, _):
        self.asked.append(request.job)
        return management_pb2.AskStartReply(may_start=self._answers.pop(0))

    @contextmanager
    def serving(self, target):
        server = grpc.server(ThreadPoolExecutor(2))
        management_pb2_grpc.add_ManagementServicer_to_server(self, server)
        server.add_insecure_port(target)
        server.start()
        yield target
        server.stop(None).wait()


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "work").mkdir()
    return PodSpec(
        job=JobId("wsjob-a"),
        role=Role.CHIEF,
        index=1,
        runtime_dir=tmp_path / "run",
        work_dir=tmp_path / "work",
        management_address="",
    )


def start(spec, tmp_path, *, ends, arguments=()):
    (spec.work_dir / "ends").write_text(ends)
    path = tmp_path / "spec.json"
    path.write_text(spec.to_json())
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "appliance.cluster.pod_container", "--spec", str(path)),
            *("--address", "127.0.0.7", "--entry", "tests.support.talking_pod"),
            *arguments,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


def test_what_a_pod_prints_is_in_its_log_and_in_the_container_s(spec, tmp_path):
    code, output = finish(start(spec, tmp_path, ends="by itself"))
    assert code == 3
    assert f"chief-1 at 127.0.0.7 in {spec.work_dir}\n" in output
    assert "and what went wrong\n" in output
    assert spec.log_path.read_text() == output
    assert spec.log_path.stat().st_mode & 0o777 == 0o660


def test_a_pod_that_a_signal_ends_is_told_as_shells_do(spec, tmp_path):
    code, _ = finish(start(spec, tmp_path, ends="by a signal"))
    assert code == 128 + signal.SIGKILL


def test_orphans_do_not_hold_the_container_up(spec, tmp_path):
    code, _ = finish(start(spec, tmp_path, ends="after an orphan"))
    assert code == 0


def test_a_pod_can_end_in_order(spec, tmp_path):
    process = start(spec, tmp_path, ends="when asked")
    wait_until(
        lambda: spec.log_path.exists() and "waiting" in spec.log_path.read_text(),
        seconds=300,
        what="the pod",
    )
    process.terminate()
    assert finish(process)[0] == 7


def test_a_pod_without_a_handler_of_its_own_ends_by_the_signal(spec, tmp_path):
    """As drivers do: while it waited, its container handled the signals."""
    told = tmp_path / "start"
    told.write_text("now")
    process = start(spec, tmp_path, ends="by the signal", arguments=("--start", str(told)))
    wait_until(
        lambda: spec.log_path.exists() and "waiting" in spec.log_path.read_text(),
        seconds=300,
        what="the pod",
    )
    process.terminate()
    assert finish(process)[0] == 128 + signal.SIGTERM


def test_a_container_waits_until_its_pod_may_start(spec, tmp_path):
    """A kubelet replaces the file by a new one."""
    told = tmp_path / "start"
    told.write_text("")
    process = start(spec, tmp_path, ends="when asked", arguments=("--start", str(told)))
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3)
    assert not spec.log_path.exists()
    (tmp_path / "new").write_text("now")
    (tmp_path / "new").replace(told)
    wait_until(
        lambda: spec.log_path.exists() and "waiting" in spec.log_path.read_text(),
        seconds=300,
        what="the pod",
    )
    process.terminate()
    assert finish(process)[0] == 7


def test_a_container_whose_file_never_comes_asks_management_until_it_may_start(spec, tmp_path):
    """A kubelet may refresh the file minutes later, or fail to."""
    keys, management = JobKeys(b"secret", ""), Starts(answers=[False, True])
    with management.serving(f"unix:{tmp_path}/m.sock") as inner:
        listener = open_inner_listener("127.0.0.1", 0, inner, keys, SystemClock())
        far = replace(
            spec,
            management_address=listener.address,
            nodes={"chief-1": "a", "management": "m"},
            options=replace(spec.options, stream_key=keys.text_of(spec.job)),
        )
        never = ("--start", str(tmp_path / "never"))
        code, output = finish(start(far, tmp_path, ends="by itself", arguments=never))
        listener.close()
    assert code == 3, output
    assert management.asked == [spec.job, spec.job]


def test_a_container_that_waits_ends_at_once_when_asked(spec, tmp_path):
    told = tmp_path / "start"
    process = start(spec, tmp_path, ends="by itself", arguments=("--start", str(told)))
    status = Path(f"/proc/{process.pid}/status")
    wait_until(lambda: handles(status, signal.SIGTERM), seconds=300, what="a container that waits")
    process.terminate()
    assert finish(process)[0] == 128 + signal.SIGTERM
    assert not spec.log_path.exists()


def handles(status, number):
    (mask,) = [line for line in status.read_text().splitlines() if line.startswith("SigCgt")]
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)
