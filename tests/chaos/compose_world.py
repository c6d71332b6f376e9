"""The appliance of docker-compose.yml, hurt from the machine that its containers run on.

Its processes are the machine's: root sees them all, and so kills, stops and starves a pod in a
container as it does an embedded one. A node is a container; its network and control groups are the
kernel's, too. The client runs where users have it, in `user-node`, with their token.
"""

import contextlib
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import grpc

from protos.cluster import cluster_pb2, cluster_pb2_grpc
from protos.wsc.v1 import drivers_pb2, drivers_pb2_grpc
from tests.chaos import processes
from tests.chaos.actions import Action
from tests.chaos.memory import limited
from tests.chaos.presence import Presence
from tests.chaos.processes import pause
from tests.chaos.world import PROGRAM, make_site
from tests.support.containers import NODES_UID, NODES_USER

HERE = Path(__file__).parent
SERVICES = {
    "coordinator": "coordinators",
    "weight": "memoryx",
    "broadcastreduce": "swarmx",
    "chief": "csx",
    "activation": "csx",
    "worker": "input",
}
"""Where pods of each role run."""
_HOME = "/home/user/chaos"
_CSCTL_PYTHON = "/opt/csctl/bin/python"
_APPLIANCE_PYTHON = "/opt/appliance/bin/python"
_PACKAGES = "/opt/appliance/lib/python3.11/site-packages"
_AUTHORITY = "cluster-server.cerebrassc.local"
_UID = 1000
_AS_USER = ("--user", "user", "--token-file", f"{_HOME}/token")
_AS_NODES_USER = ("--user", NODES_USER)
_LEASE_SECONDS = 30.0
_UP_SECONDS = 180.0
_DROP_SHARE = 0.05


class ComposeWorld:
    """A project that is up.

    Args:
        compose: The project.
        engine: What runs it.
        port: Where the machine reaches management.
    """

    def __init__(self, compose, engine, port):
        self._compose, self._engine = compose, engine
        self._home = Path(f"/proc/{self._pid('user-node')}/root{_HOME}")
        self._address = f"localhost:{port}"
        self._stack = {}
        self._authority = (self._handout / "ca.pem").read_bytes()
        token = (self._handout / "user.token").read_text().strip()
        self.metadata = _metadata("user", _UID, token)
        self._of_nodes_user = _metadata(NODES_USER, NODES_UID, compose.nodes_token())
        self.lease_seconds = _LEASE_SECONDS
        self.exclusive, self.presence, self.patience = threading.Lock(), Presence(), 1.0
        self.compiled = {}
        self._prepare()

    # Containers

    def containers(self, service):
        """Return ids of a service's containers."""
        found = self._engine.docker(
            *("ps", "-q", "--no-trunc", "--filter", self._compose.label),
            *("--filter", f"label=com.docker.compose.service={service}"),
        ).split()
        assert found, f"no container of {service}"
        return found

    def _pid(self, service):
        return self._pid_of_container(self.containers(service)[0])

    def _pid_of_container(self, container):
        return int(self._engine.docker("inspect", "-f", "{{.State.Pid}}", container))

    def _container_of(self, pid):
        """Return the id of the container that a process is in; empty if it is in none."""
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            words = line.replace(".scope", "").replace("docker-", "/").split("/")
            if len(words[-1]) == 64:
                return words[-1]
        return ""

    # The user's side

    @property
    def _handout(self):
        return Path(f"/proc/{self._pid('user-node')}/root/var/lib/wsc-handout")

    def _prepare(self):
        """Put the client, its streamer and its credentials where users have theirs."""
        shutil.rmtree(self._home, ignore_errors=True)
        package = self._home / "tests" / "chaos"
        package.mkdir(parents=True)
        for file in (self._home / "tests" / "__init__.py", package / "__init__.py"):
            file.touch()
        shutil.copy(HERE / "wire_client.py", package)
        make_site(self._home, Path("/usr/local/bin/python"))
        (self._home / "ca.pem").write_bytes(self._authority)
        token = dict(self.metadata)["auth-token"]
        (self._home / "token").write_text(token)
        for directory, _, files in os.walk(self._home):
            os.chmod(directory, 0o755)
            os.chown(directory, _UID, _UID)
            for name in files:
                os.chown(Path(directory, name), _UID, _UID, follow_symlinks=False)
        os.chmod(self._home / "token", 0o600)

    def story_path(self, name, *, is_detached=False):
        """Return where this machine reads what a client has told."""
        if is_detached:  # only its own node's /tmp can be written by the script
            return Path(f"/proc/{self._pid('coordinators')}/root/tmp/{name}.jsonl")
        return self._home / f"{name}.jsonl"

    def release(self, name):
        """Let a client's last batches go."""
        (self._home / f"{name}.go").touch()

    def channel(self):
        """Return a new connection to management."""
        credentials = grpc.ssl_channel_credentials(self._authority)
        options = (
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.ssl_target_name_override", _AUTHORITY),
            ("grpc.default_authority", _AUTHORITY),
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.max_reconnect_backoff_ms", 200),
        )
        return grpc.secure_channel(self._address, credentials, options)

    @contextlib.contextmanager
    def management(self):
        """Yield a stub of management, over a connection of its own."""
        with self.channel() as channel:
            yield cluster_pb2_grpc.ClusterManagementStub(channel)

    def job(self, name):
        """Return what management says of a job; None while it does not answer."""
        request = cluster_pb2.GetJobRequest(job_id=name)
        with self.management() as stub, contextlib.suppress(grpc.RpcError):
            return stub.GetJob(request, timeout=5, metadata=self.metadata)
        return None

    def compile(self, shape):
        """Compile for a user's jobs of a shape, in `user-node`."""
        path = f"{_HOME}/compiled-{shape.num_systems}-{shape.num_shards}"
        inside = (*self._inside("user-node"), _CSCTL_PYTHON)
        return self._compile(shape, inside, path, _AS_USER)

    def _compile_detached(self, shape):
        """Compile for the jobs of the nodes' user, where its scripts run."""
        path = f"/tmp/compiled-{shape.num_systems}-{shape.num_shards}"
        token = f"CSAUTH_TOKEN={dict(self._of_nodes_user)['auth-token']}"
        inside = (*self._inside("coordinators", token), _APPLIANCE_PYTHON)
        return self._compile(shape, inside, path, _AS_NODES_USER)

    def _compile(self, shape, inside, path, user):
        if path in self.compiled:
            return path
        (self._home / "program.mlir").write_bytes(PROGRAM.read_bytes())
        command = (
            *("-m", "tests.chaos.wire_client", "compile", "--text", f"{_HOME}/program.mlir"),
            *("--systems", str(shape.num_systems), "--shards", str(shape.num_shards)),
            *("--compiled", path, *self._reach(), *user),
        )
        done = subprocess.run(
            [*inside, *command],
            **self._settings,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.compiled[path] = True
        return path

    def _reach(self):
        ca = ("--authority", _AUTHORITY, "--ca", f"{_HOME}/ca.pem")
        return ("--address", "management:9000", *ca)

    @property
    def _settings(self):
        return {"env": self._engine.environment}

    def _inside(self, service, *variables):
        container = self.containers(service)[0]
        settings = (word for each in (f"PYTHONPATH={_HOME}", *variables) for word in ("-e", each))
        return ("docker", "exec", *settings, container)

    def _arguments(self, out, name, compiled, *, steps, seconds_per_batch):
        return [
            *("-m", "tests.chaos.wire_client", "run", *self._reach()),
            *("--compiled", compiled, "--out", out, "--name", name),
            *("--until", f"{_HOME}/{name}.go", "--steps", str(steps)),
            *("--seconds-per-batch", str(seconds_per_batch)),
            *("--site", f"{_HOME}/light/lib/python3.11/site-packages"),
            *("--python-path", _PACKAGES),
        ]

    def start_client(self, name, shape, **options):
        """Start a client in `user-node`."""
        out = f"{_HOME}/{name}.jsonl"
        arguments = self._arguments(out, name, self.compile(shape), **options)
        command = [*self._inside("user-node"), _CSCTL_PYTHON, *arguments]
        command += _AS_USER
        with (self._home / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, **self._settings, stdout=log, stderr=subprocess.STDOUT
            )
        return ContainedClient(process, out)

    def submit_detached(self, name, shape, *, limit, **options):
        """Let the appliance run a client, as the user of its nodes; return the driver's job."""
        out = f"/tmp/{name}.jsonl"
        request = drivers_pb2.SubmitDriverRequest(
            argv=[
                _APPLIANCE_PYTHON,
                *self._arguments(out, name, self._compile_detached(shape), **options),
                *_AS_NODES_USER,
            ],
            work_dir=_HOME,
            environment={"PYTHONPATH": _HOME, "PATH": "/usr/local/bin:/usr/bin:/bin"},
            labels={"run": name},
            num_systems=shape.num_systems,
            restart=drivers_pb2.RestartPolicy(on=["pod", "node"], limit=limit),
        )
        with self.channel() as channel:
            stub = drivers_pb2_grpc.DriversStub(channel)
            caller = self._of_nodes_user
            return stub.SubmitDriver(request, metadata=caller, timeout=60, wait_for_ready=True).job

    # Targets

    def find(self, target, pods):
        """Return the process of a target that is no pod; 0 if there is none now.

        Args:
            target: `management`, or `node`, `agent`, `fork server` or `network` and `of ROLE`.
            pods: The job's, by member.
        """
        if target == "management":
            return self._child(self._pid("management"))
        kind, _, role = target.partition(" of ")
        alike = sorted(name for name in pods if name.rpartition("-")[0] == role)
        if not alike:
            return 0
        container = self._container_of(pods[alike[-1]])
        init = self._pid_of_container(container)
        if kind == "agent":
            return self._child(init)
        if kind == "fork server":
            servers = [p.pid for p in processes.all_processes() if processes.FORK_SERVER in p.words]
            return next(pid for pid in servers if self._container_of(pid) == container)
        return init

    def _child(self, init):
        children = [p for p in processes.all_processes() if p.parent == init]
        return children[0].pid if children else 0

    def names(self, target, job):
        """Return words of which one must be in the reason when this target is lost."""
        kind = target.partition(" of ")[0]
        return {"fork server": ["fork server ended"]}.get(kind, ["node", "Node"])

    def hit(self, blow, pid):
        """Do what a blow says; what it does to containers and networks is undone by `mend`."""
        kind = blow.target.partition(" of ")[0]
        if blow.action is Action.KILL:
            processes.send(pid, processes.KILL)
        elif blow.action is Action.LIMIT:
            stack = self._stack.setdefault(blow, contextlib.ExitStack())
            stack.enter_context(limited(pid))
        elif kind == "node":
            self._engine.docker("pause", self._container_of(pid))
        elif kind == "network":
            self._firewall(pid, "-I", blow.action)
        else:
            processes.send(pid, processes.STOP)

    def mend(self, blow, pid):
        """Undo a blow."""
        kind = blow.target.partition(" of ")[0]
        if blow.action is Action.LIMIT:
            self._stack.pop(blow).close()
        elif blow.action is Action.KILL:
            if kind in ("node", "agent"):
                self._await_nodes()
        elif kind == "node":
            self._engine.docker("unpause", self._container_of(pid))
        elif kind == "network":
            self._firewall(pid, "-D", blow.action)
        else:
            processes.send(pid, processes.GO)

    def _firewall(self, pid, change, action):
        share = ("-m", "statistic", "--mode", "random", "--probability", str(_DROP_SHARE))
        for chain, end in (("INPUT", "-i"), ("OUTPUT", "-o")):
            rule = (chain, end, "eth+", *(share if action is Action.LOSE else ()), "-j", "DROP")
            inside = ("nsenter", "-t", str(pid), "-n", "iptables", change, *rule)
            subprocess.run(inside, check=True, capture_output=True)

    def replace_management(self):
        """Wait until the engine has started a killed management again."""
        request = cluster_pb2.GetServerVersionsRequest()
        deadline = time.monotonic() + _UP_SECONDS
        while time.monotonic() < deadline:
            with self.management() as stub, contextlib.suppress(grpc.RpcError):
                stub.GetServerVersions(request, timeout=5, metadata=self.metadata)
                return
            pause(0.2)
        raise AssertionError("management was not started again")

    def _await_nodes(self):
        """Wait until every node has joined the management that is there."""
        deadline = time.monotonic() + _UP_SECONDS
        services = sorted(set(SERVICES.values()))
        while time.monotonic() < deadline:
            with contextlib.suppress(AssertionError, ValueError):
                if all(self._has_joined(each) for s in services for each in self.containers(s)):
                    return
            pause(0.3)
        raise AssertionError("a node has not joined again")

    def _has_joined(self, container):
        started = self._engine.docker("inspect", "-f", "{{.State.StartedAt}}", container).strip()
        done = self._engine.try_docker("logs", "--since", started, container)
        return "Node has joined" in done.stdout + done.stderr

    def set_clock(self, seconds):
        """Do nothing: containers share the machine's clock."""

    def left_of(self, jobs):
        """Return what is left of jobs in any container."""
        left = [each for job in jobs for each in processes.left_of(job)]
        for service in sorted(set(SERVICES.values())):
            for container in self.containers(service):
                root = Path(f"/proc/{self._pid_of_container(container)}/root")
                left += [str(p) for job in jobs for p in (root / "run/wsc").glob(f"*/{job}")]
                left += [str(p) for job in jobs for p in (root / "dev/shm").glob(f"*{job}*")]
        return left


def _metadata(name, uid, token):
    return (
        *(("auth-uid", str(uid)), ("auth-gid", str(uid)), ("auth-username", name)),
        *(("auth-token", token), ("client-build-version", "2.10.0")),
    )


class ContainedClient:
    """A client in a container, as if it were a process of ours.

    Args:
        process: The command that started it and lasts as long as it does.
        out: The file that it alone writes.
    """

    def __init__(self, process, out):
        self._process, self._out = process, out

    @property
    def pid(self):
        """Its process id on this machine; 0 if it is not there."""
        for each in processes.all_processes():
            if each.words[0] == _CSCTL_PYTHON and self._out in each.words:
                return each.pid
        return 0

    def poll(self):
        return self._process.poll()

    def wait(self, timeout=None):
        return self._process.wait(timeout)

    def send_signal(self, number):
        if pid := self.pid:
            processes.send(pid, number)

    def kill(self):
        self.send_signal(processes.KILL)
        self._process.kill()
