"""Pods as real processes, and a coordinator played by the test."""

import contextlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from appliance.core.ids import JobId, Role
from appliance.core.pods.options_text import read_options
from appliance.core.pods.pod_spec import PodSpec, control_address
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc
from tests.support.pod_programs import ROOT, start_program

SECONDS = 240.0
"""Longest wait for what several processes do that all import torch first."""
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class PlayedCoordinator(pods_pb2_grpc.CoordinatorServicer):
    """Notes who registers, who beats and who fails."""

    def __init__(self, runtime_dir, *, heartbeat_seconds=0.1):
        self.heartbeat_seconds = heartbeat_seconds
        self.pid = 0
        self.answers = threading.Event()
        self.answers.set()
        self.registered = {}
        self.heartbeats = {}
        self.failures = queue.Queue()
        self._changed = threading.Condition()
        self.server = grpc.server(ThreadPoolExecutor(16))
        pods_pb2_grpc.add_CoordinatorServicer_to_server(self, self.server)
        self.server.add_insecure_port(control_address(runtime_dir, Role.COORDINATOR, 0))
        self.server.start()

    def Register(self, request, context):
        with self._changed:
            self.registered[request.pod] = request
            self._changed.notify_all()
        return pods_pb2.RegisterReply(heartbeat_seconds=self.heartbeat_seconds, pid=self.pid)

    def Heartbeat(self, request, context):
        with self._changed:
            self.heartbeats.setdefault(request.pod, []).append(request)
            self._changed.notify_all()
        self.answers.wait(SECONDS)
        return pods_pb2.HeartbeatReply()

    def ReportFailure(self, request, context):
        self.failures.put(request)
        return pods_pb2.FailureReply()

    def wait_for(self, condition):
        with self._changed:
            assert self._changed.wait_for(condition, SECONDS)

    def wait_for_step(self, pod, step):
        """Wait until a pod has completed so many steps."""
        self.wait_for(lambda: any(beat.step >= step for beat in self.heartbeats.get(pod, [])))

    def next_heartbeat(self, pod):
        """Return a heartbeat that was sent after this call."""
        count = len(self.heartbeats.get(pod, []))
        self.wait_for(lambda: len(self.heartbeats.get(pod, [])) > count + 1)
        return self.heartbeats[pod][-1]


class PodProcess:
    """One pod, as `python -m MODULE --spec FILE` is.

    Args:
        module: Its program.
        spec: Of the pod.
        interpreter: Command that starts an interpreter; None to fork the pod from one that has its
            imports, outside this process's control groups.
    """

    def __init__(self, module, spec, interpreter=None):
        self.spec = spec
        spec.log_path.parent.mkdir(parents=True, exist_ok=True)
        spec_path = spec.work_dir / f"{spec.role.value}-{spec.index}.json"
        spec_path.write_text(spec.to_json())
        arguments = ["-m", module, "--spec", str(spec_path)]
        if interpreter is None:
            self.process = start_program(arguments, output=spec.log_path)
        else:
            with spec.log_path.open("w") as log:
                self.process = subprocess.Popen(
                    [*interpreter, *arguments], stdout=log, stderr=subprocess.STDOUT, cwd=ROOT
                )
        self.channel = grpc.insecure_channel(spec.control_address(), options=_OPTIONS)
        self.pod = pods_pb2_grpc.PodStub(self.channel)
        self.memoryx = pods_pb2_grpc.MemoryXStub(self.channel)
        self.kernels = pods_pb2_grpc.KernelsStub(self.channel)

    def log(self):
        return self.spec.log_path.read_text()

    def wait(self):
        return self.process.wait(SECONDS)

    def close(self):
        self.channel.close()
        self.process.kill()
        self.process.wait()


class Job:
    """The pod_context of one job's pods: directories, played coordinator, processes."""

    def __init__(
        self, directory, nodes=(), places=(), name="wsjob-test", *, own_interpreters=False
    ):
        self.name = JobId(name)
        self._own_interpreters = own_interpreters
        self.nodes, self.places = dict(nodes), dict(places)
        # The path of a socket is at most 107 bytes long, which a test's own directory nearly fills.
        self.runtime_dir = Path(tempfile.mkdtemp(prefix="wsc-job"))
        self.work_dir = directory / "work"
        self.work_dir.mkdir()
        self.coordinator = PlayedCoordinator(self.runtime_dir)
        self.processes = []

    def place(self, role, index):
        """Return where a pod runs, if that is not this process's own network."""
        return self.places.get(self.nodes.get(f"{role}-{index}"))

    def interpreter(self, prefix):
        """Return the command that starts a pod's interpreter, given what precedes it; or None."""
        return [*prefix, sys.executable] if prefix or self._own_interpreters else None

    def spec(self, role, index=0, **options):
        place = self.place(role, index)
        if place is not None:
            options["stream_host"] = place.address
        return PodSpec(
            job=self.name,
            role=Role(role),
            index=index,
            runtime_dir=self.runtime_dir,
            work_dir=self.work_dir,
            management_address="",
            options=read_options(Role(role), {n: str(o) for n, o in options.items()}),
            nodes=self.nodes,
        )

    def launch(self, module, role, index=0, **options):
        place = self.place(role, index)
        prefix = () if place is None else place.prefix
        spec = self.spec(role, index, **options)
        process = PodProcess(module, spec, self.interpreter(prefix))
        self.processes.append(process)
        return process

    def wait_until_registered(self):
        names = {process.spec.name for process in self.processes}
        self.coordinator.wait_for(lambda: names <= set(self.coordinator.registered))

    def drain_failures(self):
        """Return the failures that were reported and not looked at yet."""
        failures = []
        with contextlib.suppress(queue.Empty):
            while True:
                failures.append(self.coordinator.failures.get_nowait())
        return failures

    def stream_files(self):
        return sorted(path.name for path in self.runtime_dir.glob("*.stream"))

    def close(self):
        for process in self.processes:
            process.close()
        self.coordinator.answers.set()  # its threads are waited for when the interpreter ends
        self.coordinator.server.stop(None).wait()
        shutil.rmtree(self.runtime_dir, ignore_errors=True)


@contextlib.contextmanager
def make_job(directory, nodes=(), places=(), name="wsjob-test", *, own_interpreters=False):
    """Yield a job; prints the pods' logs if the test fails.

    Args:
        directory: Where its directories are made.
        nodes: Node of each pod by member name; none for one node.
        places: Where each host is, by its name; a host that is not named is this process's own.
        name: The job's id, by which its shared memory is found among that of other tests' jobs.
        own_interpreters: Whether each pod starts one, in this process's control groups and with
            memory that it shares with no other pod.
    """
    job = Job(directory, nodes, places, name, own_interpreters=own_interpreters)
    try:
        yield job
    except BaseException:
        for process in job.processes:
            print(f"--- {process.spec.name}\n{process.log()}")
        raise
    finally:
        job.close()
