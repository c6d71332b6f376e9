"""Measures jobs on Kubernetes: `python -m benchmarks.kubernetes_jobs`, with `--small` to try it.

A namespace holds finished wsjobs, as many as a busy day leaves. Then wsjobs are created whose
drivers run `true`, all at once and of one user, so most wait until others of that user have ended.
The controller is a process of its own, with SQLite; etcd and the API server are real; nodes are
played, and end every pod as soon as it is let start, so what is measured is what the appliance and
the API server take. All of it shares this machine's cores.

*Memory* is what the controller takes more at its peak than before the jobs came, for each job that
it has heard of: the finished ones count as they are held, too.

Prints one line per bar (`name value bar ok|MISSED`); the exit code is 1 if one is missed.
"""

import argparse
import contextlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import yaml

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.informer import Informer
from appliance.cluster.kubernetes.manifests import START_FILE
from appliance.cluster.kubernetes.object_kinds import JOB_LABEL, POD, WSJOB, Resource, name_of
from benchmarks.queue_throughput import Bar
from tests.support.fake_nodes import own_directory
from tests.support.kube_server import (
    KubeServer,
    new_namespace,
    reason_to_skip,
    running_kube_server,
)

_ROOT = Path(__file__).parents[1]
_NUM_THREADS = 4
_POLL_SECONDS = 0.5
_START_POLL_SECONDS = 0.01
_SYNC_SECONDS = 60.0
_SPEC = {
    "user": {"uid": 1000, "gid": 100, "name": "ada"},
    "driver": {"command": ["true"], "workingDir": "/"},
}
_ENDED = "2026-01-01T00:00:00Z"
_RUNNING: Resource = {"running": {}}
_DONE: Resource = {"terminated": {"exitCode": 0, "reason": "Completed"}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="wsjobs that are created at once")
    parser.add_argument("--finished", type=int, default=2000, help="wsjobs that are there")
    parser.add_argument(
        "--small", action="store_true", help="10 and 20 of them: too few to judge memory by"
    )
    options = parser.parse_args(arguments)
    if reason := reason_to_skip():
        print(f"kubernetes_jobs not-measured: {reason}")
        return 1
    num_jobs, num_finished = (10, 20) if options.small else (options.jobs, options.finished)
    with tempfile.TemporaryDirectory(prefix="wsc-b") as directory:
        bars = list(_measure(Path(directory), num_jobs, num_finished))
    for bar in bars:
        print(bar)
    return 0 if all(bar.is_met for bar in bars) else 1


def _measure(directory: Path, num_jobs: int, num_finished: int) -> Iterator[Bar]:
    (directory / "kube").mkdir()
    with running_kube_server(directory / "kube") as kube:
        api = kube.admin(new_namespace(kube.admin()))
        with ThreadPoolExecutor(_NUM_THREADS) as threads:
            list(threads.map(lambda number: _add_finished(api, number), range(num_finished)))
        kubeconfig = _kubeconfig(kube, directory / "config", api.namespace)
        with (
            _controller(directory / "data", kubeconfig) as controller,
            _Nodes(api),
            _watched(api) as wsjobs,
        ):
            before = controller.memory_mib()
            start, cpu = time.perf_counter(), controller.cpu_seconds()
            with ThreadPoolExecutor(_NUM_THREADS) as threads:
                list(threads.map(lambda number: _add(api, f"run-{number}"), range(num_jobs)))
            while not _are_over(wsjobs, num_jobs + num_finished):
                controller.note_memory()
                controller.pause()
            seconds = time.perf_counter() - start
            cpu = controller.cpu_seconds() - cpu
            growth = controller.peak_mib - before
    print(f"{num_jobs:,} wsjobs beside {num_finished:,} finished ones: {seconds:,.1f} s")
    print(f"load of the machine's {os.cpu_count()} cores at the end: {os.getloadavg()[0]:.1f}")
    print(f"{1000 * cpu / num_jobs:.1f} ms of the controller's processor for each")
    print(f"{before:,.0f} MiB with the finished ones, {growth:,.0f} MiB more at the peak")
    per_second = num_jobs / seconds
    yield Bar(name="kubernetes_true_jobs_per_second", value=per_second, bar=5, is_least=True)
    per_job = 1024 * growth / num_jobs
    yield Bar(name="kubernetes_controller_kib_per_job", value=per_job, bar=200, is_least=False)


def _kubeconfig(kube: KubeServer, path: Path, namespace: str) -> Path:
    """Write the administrator's kubeconfig for a namespace."""
    document = yaml.safe_load(kube.kubeconfig.read_text())
    document["contexts"][0]["context"]["namespace"] = namespace
    path.write_text(yaml.safe_dump(document))
    return path


def _add(api: ApiServer, name: str) -> None:
    api.create(WSJOB, {"metadata": {"name": name}, "spec": _SPEC})


def _add_finished(api: ApiServer, number: int) -> None:
    """Let there be a wsjob whose job has ended, and that its user has not deleted."""
    name = f"done-{number}"
    made = api.create(WSJOB, {"metadata": {"name": name}, "spec": _SPEC})
    status = {
        "job": f"wsjob-{number:022}",
        "phase": "SUCCEEDED",
        "endedAt": _ENDED,
        "observedGeneration": made["metadata"]["generation"],
    }
    api.patch(WSJOB, name, {"status": status}, subresource="status")


@contextlib.contextmanager
def _watched(api: ApiServer) -> Iterator[Informer]:
    """Yield all wsjobs as a watch tells of them: to list thousands is work of the server's own."""
    informer = Informer(api, WSJOB, "", lambda _: None)
    informer.start(timeout_seconds=_SYNC_SECONDS)
    try:
        yield informer
    finally:
        informer.close()


def _are_over(watched: Informer, num_wsjobs: int) -> bool:
    """Whether nothing is left to be done for any wsjob.

    Raises:
        RuntimeError: One has not succeeded.
    """
    wsjobs = watched.all().values()
    for each in wsjobs:
        status = each.get("status") or {}
        if status.get("phase") in ("FAILED", "CANCELLED"):
            raise RuntimeError(
                f"wsjob {name_of(each)} is {status['phase']}: {status.get('message', '')}"
            )
    return len(wsjobs) == num_wsjobs and all(
        (each.get("status") or {}).get("phase") == "SUCCEEDED"
        and not each["metadata"].get("finalizers")
        for each in wsjobs
    )


class _Controller:
    """A controller in a process of its own.

    Attributes:
        peak_mib: The most memory that it was seen to have.

    Args:
        process: The process that has forked it.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        (self._process,) = psutil.Process(process.pid).children()
        self._pause = threading.Event()
        self.peak_mib = 0.0

    def memory_mib(self) -> float:
        """Return the memory that is its own."""
        return float(self._process.memory_full_info().uss) / (1 << 20)

    def note_memory(self) -> None:
        """Note the memory that it has now."""
        self.peak_mib = max(self.peak_mib, self.memory_mib())

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def pause(self) -> None:
        """Leave the processor to it for a moment."""
        self._pause.wait(_POLL_SECONDS)


@contextlib.contextmanager
def _controller(directory: Path, kubeconfig: Path) -> Iterator[_Controller]:
    directory.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.kube_zygote", str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=_ROOT,
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(_ROOT)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(b"start\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer == b"ready\n", "the controller did not start"
        yield _Controller(process)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


class _Nodes:
    """A scheduler and a kubelet that end every pod as soon as it is let start.

    Args:
        api: The cluster.
    """

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._waiting: queue.SimpleQueue[Resource | None] = queue.SimpleQueue()
        self._informer = Informer(api, POD, JOB_LABEL, self._waiting.put)
        self._pause = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(_NUM_THREADS)]

    def __enter__(self) -> "_Nodes":
        self._informer.start(timeout_seconds=_SYNC_SECONDS)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pause.set()
        self._informer.close()
        for _thread in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (pod := self._waiting.get()) is not None:
            phase = (pod.get("status") or {}).get("phase", "Pending")
            if not pod["spec"].get("nodeName"):
                self._bind(name_of(pod))
            elif phase == "Pending":
                self._show(pod, "Running", _RUNNING)
            elif phase == "Running":
                if (own_directory(pod) / START_FILE).exists():
                    self._show(pod, "Succeeded", _DONE)
                else:  # a real one waits for it, too
                    self._pause.wait(_START_POLL_SECONDS)
                    self._waiting.put(pod)

    def _bind(self, name: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
        path = POD.path(self._api.namespace, name, "binding")
        body = {"metadata": {"name": name}, "target": target}
        self._api._call("POST", path, body=body, missing=True)

    def _show(self, pod: Resource, phase: str, state: Resource) -> None:
        container = {"name": "pod", "ready": phase == "Running", "restartCount": 0}
        status = {**container, "image": "test", "imageID": "test", "state": state}
        change = {"status": {"phase": phase, "containerStatuses": [status]}}
        self._api.patch(POD, name_of(pod), change, subresource="status")


if __name__ == "__main__":
    raise SystemExit(main())
