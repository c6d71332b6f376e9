"""An appliance that is hurt: how it is started, its management replaced, its processes found."""

import contextlib
import dataclasses
import json
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import grpc

from appliance.management.store.instance import Instance
from protos.cluster import cluster_pb2, cluster_pb2_grpc
from protos.wsc.v1 import drivers_pb2, drivers_pb2_grpc
from tests.chaos import memory, processes
from tests.chaos.actions import Action
from tests.chaos.presence import Presence
from tests.chaos.processes import pause

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM = ROOT / "tests" / "unit" / "compiler" / "programs" / "mlp.mlir"
LEASE_SECONDS = 12
_USER = (
    ("auth-uid", str(os.getuid())),
    ("auth-gid", str(os.getgid())),
    ("auth-username", "chaos"),
    ("client-build-version", "2.10.0"),
)
_COMMAND_SECONDS = 300


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """What a job needs.

    Attributes:
        num_systems: Systems.
        num_shards: Weight pods at most.
    """

    num_systems: int = 1
    num_shards: int = 1


class World:
    """An appliance and what surrounds it.

    Args:
        directory: Where everything of it lies; short-lived.
        arguments: Further arguments of `appliance up`.
        prefix: What to put before each command, as in `ip netns exec NAME`.
        data_dir: Where the appliance keeps its data; below `directory` if not given.
    """

    def __init__(self, directory, *, arguments=(), prefix=(), data_dir=None):
        self.directory = directory
        self.data_dir = data_dir or directory / "data"
        self.arguments, self.prefix = tuple(arguments), tuple(prefix)
        self.instance = Instance(self.data_dir)
        self.site = make_site(directory, Path(getattr(sys, "_base_executable", sys.executable)))
        self.metadata, self.lease_seconds = _USER, LEASE_SECONDS
        self._limits = {}
        self.clock = ClockOffset(directory)
        self.environment = {
            **os.environ,
            **self.clock.variables,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": tempfile.gettempdir(),
        }
        self.exclusive = threading.Lock()
        self.compiled = {}
        self.patience = 1.0
        self.presence = Presence()
        self.address = ""

    def up(self):
        """Start the appliance, or the next management of it."""
        answer = self._appliance(
            *("up", "--data-dir", str(self.data_dir), "--port", "0", "--rest-port", "0"),
            *("--lease-seconds", str(LEASE_SECONDS), *self.arguments),
        )
        assert answer.returncode == 0, f"{answer.stdout}{answer.stderr}{self.log()[-3000:]}"
        self.address = self.instance.find_state().address

    def down(self):
        """Stop it."""
        return self._appliance("down", "--data-dir", str(self.data_dir))

    def _appliance(self, *arguments):
        return subprocess.run(
            [*self.prefix, sys.executable, "-m", "appliance", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )

    def log(self):
        """Return what management has said."""
        path = self.instance.log_path
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def management_pid(self):
        """Process id of management."""
        return self.instance.find_state().pid

    def replace_management(self):
        """Wait until a killed management is gone, and start the next."""
        deadline = time.monotonic() + 60
        while self.instance.is_running():
            assert time.monotonic() < deadline
            pause(0.02)
        self.up()

    def fork_server_pid(self):
        """Return the process id of the server that forks pods."""
        found = [
            each.pid
            for each in processes.all_processes()
            if processes.FORK_SERVER in each.words and str(self.data_dir) in self._log_of(each.pid)
        ]
        assert found, "no fork server"
        return found[0]

    def _log_of(self, pid):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{pid}/fd/1")
        return ""

    @contextlib.contextmanager
    def management(self):
        """Yield a stub of management and its metadata, over a connection of its own."""
        with self.channel() as channel:
            yield cluster_pb2_grpc.ClusterManagementStub(channel)

    def channel(self):
        """Return a new connection to management."""
        options = (
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.min_reconnect_backoff_ms", 50),
            ("grpc.max_reconnect_backoff_ms", 200),
        )
        return grpc.insecure_channel(self.address, options)

    def job(self, name):
        """Return what management says of a job; None while it does not answer."""
        request = cluster_pb2.GetJobRequest(job_id=name)
        with self.management() as stub, contextlib.suppress(grpc.RpcError):
            return stub.GetJob(request, timeout=5, metadata=_USER)
        return None

    def compile(self, shape):
        """Return the file with the compile job's answer for jobs of a shape."""
        if shape in self.compiled:
            return self.compiled[shape]
        path = self.directory / f"compiled-{shape.num_systems}-{shape.num_shards}"
        command = [
            *(*self.prefix, sys.executable, "-m", "tests.chaos.wire_client", "compile"),
            *("--address", self.address, "--text", str(PROGRAM), "--compiled", str(path)),
            *("--systems", str(shape.num_systems), "--shards", str(shape.num_shards)),
        ]
        subprocess.run(
            command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=300
        )
        self.compiled[shape] = path
        return path

    def story_path(self, name, *, is_detached=False):
        """Return the file in which a client tells what happens."""
        return self.directory / f"{name}.jsonl"

    def _until(self, name):
        return self.directory / f"{name}.go"

    def release(self, name):
        """Let a client's last batches go."""
        self._until(name).touch()

    def client_command(self, name, shape, *, steps, seconds_per_batch):
        """Return the command of a client."""
        return [
            *(sys.executable, "-m", "tests.chaos.wire_client", "run"),
            *("--address", self.address, "--compiled", str(self.compile(shape))),
            *("--out", str(self.story_path(name)), "--until", str(self._until(name))),
            *("--name", name, "--steps", str(steps)),
            *("--seconds-per-batch", str(seconds_per_batch), "--site", str(self.site)),
            *("--python-path", _site_packages(), "--python-path", str(ROOT)),
        ]

    def start_client(self, name, shape, **options):
        """Start a client in a process of its own."""
        with (self.directory / f"{name}.log").open("w") as log:
            return subprocess.Popen(
                [*self.prefix, *self.client_command(name, shape, **options)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def submit_detached(self, name, shape, *, limit, **options):
        """Let the appliance run a client; return the driver's job."""
        request = drivers_pb2.SubmitDriverRequest(
            argv=self.client_command(name, shape, **options),
            work_dir=str(ROOT),
            environment={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
            labels={"run": name},
            num_systems=shape.num_systems,
            restart=drivers_pb2.RestartPolicy(on=["pod", "node"], limit=limit),
        )
        with self.channel() as channel:
            stub = drivers_pb2_grpc.DriversStub(channel)
            return stub.SubmitDriver(request, metadata=_USER, timeout=60).job

    # What is done to it

    def find(self, target, pods):
        """Return the process of a target that is no pod; 0 if there is none now.

        Args:
            target: `management`, `fork server` or `clock`.
            pods: The job's, by member.
        """
        if target == "management":
            return self.management_pid
        if target == "fork server":
            return self.fork_server_pid()
        return int(target == "clock" and self.clock.is_there)

    def names(self, target, job):
        """Return words of which one must be in the reason when this target is lost."""
        return ["fork server ended"]

    def hit(self, blow, pid):
        """Do what a blow says."""
        match blow.action:
            case Action.STOP:
                processes.send(pid, processes.STOP)
            case Action.KILL:
                processes.send(pid, processes.KILL)
            case Action.LIMIT:
                limits = self._limits.setdefault(blow, contextlib.ExitStack())
                limits.enter_context(memory.limited(pid))
            case Action.SET:
                self.set_clock(int(blow.seconds))
            case _:
                raise ValueError(f"{blow} is nothing that is done to a process")

    def mend(self, blow, pid):
        """Undo a blow."""
        if blow.action is Action.STOP:
            processes.send(pid, processes.GO)
        elif blow.action is Action.LIMIT:
            self._limits.pop(blow).close()

    def set_clock(self, seconds):
        """Let the wall clock be so many seconds ahead of the machine's."""
        self.clock.set(seconds)

    def left_of(self, jobs):
        """Return what is left of jobs: processes, shared memory, sockets."""
        root, kept = self.instance.find_state().runtime_root, self.data_dir / "jobs"
        left = [each for job in jobs for each in processes.left_of(job)]
        left += [f"{root}/{job}" for job in jobs if Path(root, job).exists()]
        return left + [str(p) for job in jobs for p in (kept / job / "streamers").glob("*")]


def make_site(directory, python):
    """Make an environment whose streamer is the bench's own; return its site-packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = directory / "light" / "lib" / version / "site-packages"
    module = site / "cerebras" / "pytorch" / "utils" / "data" / "streamer"
    module.mkdir(parents=True)
    shutil.copy(HERE / "light_streamer.py", module / "cs_streamer_app.py")
    (site / "torch.py").write_text('"""Nothing of it is needed."""\n')
    binaries = directory / "light" / "bin"
    binaries.mkdir()
    (binaries / version).symlink_to(python)
    return site


def _site_packages():
    return str(Path(grpc.__file__).parents[1])


class ClockOffset:
    """The wall clock of an appliance, which can be set.

    Args:
        directory: Takes the offset and the library that adds it.
    """

    def __init__(self, directory):
        self.path, library = directory / "clock", directory / "clock.so"
        self.path.write_bytes(bytes(8))
        compiler = shutil.which("gcc") or shutil.which("cc")
        self.variables = {}
        if compiler is not None:
            command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library)]
            subprocess.run([*command, str(HERE / "clock_offset.c"), "-ldl"], check=True)
            self.variables = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self.path)}

    @property
    def is_there(self):
        """Whether the clock can be set."""
        return bool(self.variables)

    def set(self, seconds):
        """Let the wall clock be so many seconds ahead of the machine's."""
        with self.path.open("r+b") as file, mmap.mmap(file.fileno(), 8) as memory:
            memory[:8] = struct.pack("<q", seconds)


def read_story(path):
    """Return what a client has told so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
