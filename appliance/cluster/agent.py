"""The agent of a node: joins management, and starts, watches and ends the pods assigned to it.

It wraps the launcher of the embedded appliance, so a node runs pods exactly as a single machine
does. When it loses management the pods go on, and it joins again and reports what runs; if no
management answers for too long it ends them. When the agent itself is killed its fork server goes
on, and the node's next agent takes it over. When it is told to end, it ends the pods first.
"""

import logging
import os
import queue
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import psutil

from appliance.cluster import node_messages
from appliance.cluster.launcher import (
    Exit,
    JobStopped,
    LauncherLost,
    LauncherTaken,
    PodExit,
    PodsWait,
    Survivor,
)
from appliance.cluster.node_cores import NodeCores
from appliance.cluster.process_launcher import PodPrograms, ProcessLauncher, ProcessOptions
from appliance.core.clock import Clock
from appliance.core.cluster.join_token import JoinToken
from appliance.core.cluster.node_roles import NODE_ROLE
from appliance.core.errors import ClusterError
from appliance.core.ids import JobId, PodName
from appliance.core.pods.pod_spec import PodSpec
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.tunnel import NODES, Bridge
from protos.wsc.v1 import nodes_pb2 as pb
from protos.wsc.v1 import nodes_pb2_grpc

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 1.0
_RETRY_SECONDS = 0.5
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How an agent works.

    Attributes:
        join: host:port at which management waits for agents.
        token: Proves that the node may join.
        name: Name of the node, unique among the nodes of the cluster.
        address: Address at which its pods listen, and are reached by those of other nodes.
        public_host: Name by which clients reach the coordinators among them; usually the address.
        roles: What its pods may be.
        cores: CPU cores to share out among them.
        memory_bytes: Memory that they may fill.
        runtime_root: Directory for sockets; at most 40 bytes long.
        orphan_seconds: How long pods go on without management, and without an agent.
        programs: What the pods run.
    """

    join: str
    token: JoinToken
    name: str
    address: str
    public_host: str
    roles: tuple[str, ...]
    cores: NodeCores
    memory_bytes: int
    runtime_root: Path
    orphan_seconds: float
    programs: PodPrograms


class Agent:
    """One node's agent.

    Args:
        options: See `AgentOptions`.
        clock: Says how long nobody has come.
    """

    def __init__(self, options: AgentOptions, clock: Clock) -> None:
        self._options, self._clock = options, clock
        options.runtime_root.parent.mkdir(parents=True, exist_ok=True)
        self._launcher = ProcessLauncher(
            ProcessOptions(
                runtime_root=options.runtime_root,
                log_path=options.runtime_root / "launcher.log",  # goes with the directory
                node=options.name,
                programs=options.programs,
                orphan_seconds=options.orphan_seconds,
            )
        )
        self._held: dict[JobId, Survivor] = dict(self._launcher.survivors())
        self._reports: queue.SimpleQueue[pb.NodeReport | None] | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._is_joined, self._trouble = False, ""
        self._alone_since = clock.monotonic_seconds()
        self._identity = options.runtime_root / "streams.pem"
        self._call: grpc.Call | None = None

    def stop(self) -> None:
        """Ask the agent to end; safe in a signal handler."""
        self._stopping.set()
        if (call := self._call) is not None:
            call.cancel()

    def run(self) -> None:
        """Serve until told to stop; then end every pod.

        Raises:
            ClusterError: The fork server does not come up.
        """
        options = self._options
        self._launcher.wait_until_warm()
        bridge = Bridge(
            options.runtime_root / "join.sock",
            lambda: options.join,
            hello={"token": options.token.id},
            label=options.name,
            options=NetworkOptions(
                key=options.token.secret.encode(), fingerprint=options.token.fingerprint
            ),
            clock=self._clock,
            service=NODES,
        )
        threads = [
            threading.Thread(target=body, name=body.__name__.strip("_"), daemon=True)
            for body in (self._forward_exits, self._beat)
        ]
        for thread in threads:
            thread.start()
        try:
            while not self._stopping.is_set():
                self._serve(bridge)
                self._stopping.wait(_RETRY_SECONDS)
        finally:
            bridge.close()
            self._launcher.close()

    def _serve(self, bridge: Bridge) -> None:
        """Be joined until the connection breaks."""
        with grpc.insecure_channel(bridge.target, options=_CHANNEL_OPTIONS) as channel:
            reports: queue.SimpleQueue[pb.NodeReport | None] = queue.SimpleQueue()
            with self._lock:
                reports.put(self._hello())
                self._reports = reports
            self._call = call = nodes_pb2_grpc.NodesStub(channel).Join(iter(reports.get, None))
            if self._stopping.is_set():  # told between two calls
                call.cancel()
            try:
                for order in call:
                    self._obey(order)
            except grpc.RpcError as error:
                self._tell_trouble(bridge.trouble or str(error.details()))
            finally:
                with self._lock:
                    self._reports = None
                    if self._is_joined:
                        self._is_joined, self._alone_since = False, self._clock.monotonic_seconds()
                reports.put(None)

    def _tell_trouble(self, why: str) -> None:
        if why != self._trouble and not self._stopping.is_set():
            logger.warning("Management is not reached", extra={"why": why})
            self._trouble = why

    def _hello(self) -> pb.NodeReport:
        options = self._options
        jobs = [node_messages.held_job(job, held) for job, held in self._held.items()]
        hello = pb.NodeHello(
            name=options.name,
            address=options.address,
            roles=options.roles,
            num_cores=options.cores.num_cores,
            machine=options.cores.machine,
            machine_cores=options.cores.machine_cores,
            public_host=options.public_host,
            memory_bytes=options.memory_bytes,
            jobs=jobs,
        )
        return pb.NodeReport(hello=hello)

    # Orders

    def _obey(self, order: pb.NodeOrder) -> None:
        match order.WhichOneof("kind"):
            case "welcome":
                self._take_identity(order.welcome.stream_identity)
                self._is_joined, self._trouble = True, ""
                logger.info("Node has joined", extra={"node": self._options.name})
            case "prepare":
                self._reply(order.number, error=self._refusal(_specs(order.prepare)))
            case "launch":
                self._launch(order.number, _specs(order.launch))
            case "stop":
                self._launcher.stop(JobId(order.stop))
            case "forget":
                with self._lock:
                    self._held.pop(JobId(order.forget), None)
                self._launcher.forget(JobId(order.forget))
            case None:
                logger.warning("An order is not understood; is management of a later release?")

    def _launch(self, number: int, specs: list[PodSpec]) -> None:
        job = specs[0].job
        try:
            pids = self._launcher.launch([self._here(spec) for spec in specs])
        except (ClusterError, OSError) as error:
            self._reply(number, error=str(error).rstrip("."))
            return
        with self._lock:
            # A pod may have ended before the answer came, and its end been noted already.
            before = self._held.get(job)
            exits = before.exits if before is not None else ()
            self._held[job] = Survivor(pids=pids, exits=exits, is_stopped=False)
        self._reply(number, pids=pids)

    def _here(self, spec: PodSpec) -> PodSpec:
        """Return a pod's spec with what only its node knows."""
        options = spec.options.with_files({"stream_identity": self._identity})
        here = replace(spec, options=options, runtime_dir=self._launcher.runtime_dir(spec.job))
        return here.at(self._options.address, self._options.public_host)

    def _refusal(self, specs: list[PodSpec]) -> str:
        """Return why these pods cannot be started here; empty if they can."""
        for spec in specs:
            if (role := NODE_ROLE[spec.role]) not in self._options.roles:
                return f"{spec.name} needs a node with role {role!r}, and this one has none"
            if not os.access(spec.work_dir, os.W_OK | os.X_OK):
                return (
                    f"the work directory {spec.work_dir} of {spec.name} is not there, or may not "
                    "be written; mount the volume that the nodes share"
                )
        return ""

    def _take_identity(self, content: bytes) -> None:
        if content:
            self._identity.touch(mode=0o600)
            self._identity.write_bytes(content)

    # Reports

    def _reply(self, number: int, *, error: str = "", pids: Mapping[PodName, int] = {}) -> None:
        reply = pb.OrderReply(
            order=number, error=error, pids={str(name): pid for name, pid in pids.items()}
        )
        self._report(pb.NodeReport(reply=reply))

    def _report(self, report: pb.NodeReport) -> None:
        """Report to management if connected; otherwise it learns what it needs on reconnection."""
        if (reports := self._reports) is not None:
            reports.put(report)

    def _forward_exits(self) -> None:
        while True:
            end = self._launcher.exits.get()
            with self._lock:
                self._note(end)

    def _note(self, end: Exit) -> None:
        match end:
            case PodExit(job=job):
                held = self._held.get(job, Survivor(pids={}, exits=(), is_stopped=False))
                self._held[job] = replace(held, exits=(*held.exits, end))
                self._report(pb.NodeReport(pod_ended=node_messages.pod_ended(end)))
            case JobStopped(job=job):
                held = self._held.get(job, Survivor(pids={}, exits=(), is_stopped=True))
                self._held[job] = replace(held, is_stopped=True)
                self._report(pb.NodeReport(job_stopped=job))
            case LauncherLost(jobs=jobs, reason=reason):
                for job in jobs:
                    self._held.pop(job, None)
                self._report(pb.NodeReport(pods_lost=pb.PodsLost(jobs=jobs, reason=reason)))
            case PodsWait():  # of processes none waits
                pass
            case LauncherTaken():  # another agent of this node; it reports from now on
                os.kill(os.getpid(), signal.SIGTERM)

    def _beat(self) -> None:
        """Send heartbeats of the node; end pods that have been without management for too long."""
        while not self._stopping.wait(_BEAT_SECONDS):
            load = pb.NodeBeat(
                cpu_percent=psutil.cpu_percent(), memory_percent=psutil.virtual_memory().percent
            )
            self._report(pb.NodeReport(beat=load))
            alone = self._clock.monotonic_seconds() - self._alone_since
            if not self._is_joined and alone > self._options.orphan_seconds:
                self._end_orphans()

    def _end_orphans(self) -> None:
        with self._lock:
            orphans = [job for job, held in self._held.items() if not held.is_stopped]
        for job in orphans:
            logger.warning("Management has not come for too long", extra={"ended": job})
            self._launcher.stop(job)


def _specs(pods: pb.Pods) -> list[PodSpec]:
    return [PodSpec.from_json(text) for text in pods.specs]
