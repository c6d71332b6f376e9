"""The launcher over several nodes: each node's agent joins by itself and is given its pods.

A gang is launched in two steps: every node says whether it could, then every node does. If one
refuses or is not connected, the pods that the others have started are ended. A node whose agent is
away gets a grace time; after that its pods count as ended, and their jobs fail with that as the
reason. What a joining node runs is compared with what is known, and unknown pods are ended.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.cluster import node_messages
from appliance.cluster.known_nodes import ExpectedPod, KnownNode, PodsOnNode
from appliance.cluster.launcher import Exit, Exits, JobStopped, PodExit, Survivor
from appliance.cluster.node_cores import NodeCores
from appliance.cluster.node_links import NodeLink, NodeView
from appliance.cluster.work_dirs import write_request
from appliance.core.clock import Clock
from appliance.core.errors import ClusterError, ConflictError
from appliance.core.ids import JobId, PodName, Role
from appliance.core.pods.end_cause import EndCause
from appliance.core.pods.pod_spec import PodSpec
from protos.wsc.v1 import nodes_pb2 as pb

logger = logging.getLogger(__name__)

LOST = "was lost: "
"""In a pod's end: what it ran on is at fault."""

_WATCH_SECONDS = 0.25
_ALIVE_SECONDS = 3.0
"""A node that was heard of so lately is not one that has been moved to another address."""
_LOST_CODE = 137
_SILENCE_SECONDS = 8.0
"""A node that says nothing for so long, where it should once a second, is away."""
_ORDER_SECONDS = 15.0
"""How long a node may take to answer an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsOptions:
    """How the launcher deals with nodes.

    Attributes:
        runtime_root: Management's own directory for sockets.
        stream_identity: What encrypted streams prove themselves with, PEM; empty for plain ones.
        grace_seconds: How long a node may be away before its pods count as lost.
        takes_loopback: Whether nodes may be on management's own machine, known by its loopback.
    """

    runtime_root: Path
    stream_identity: bytes
    grace_seconds: float
    takes_loopback: bool


class AgentLauncher:
    """Runs pods on the nodes that have joined; see `appliance.cluster.launcher.Launcher`.

    Args:
        options: See `AgentsOptions`.
        on_change: Called, from any thread, when a node has come or gone.
    """

    def __init__(
        self, options: AgentsOptions, clock: Clock, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._options, self._clock, self._on_change = options, clock, on_change
        self._exits = Exits()
        self._nodes: dict[str, KnownNode] = {}
        self._jobs: dict[JobId, dict[str, PodsOnNode]] = {}
        self._stopping: set[JobId] = set()
        self._survivors: Mapping[JobId, Survivor] = {}
        self._is_resumed = False
        self._changed = threading.Condition(threading.RLock())
        self._is_closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="nodes", daemon=True)
        self._watcher.start()

    # What the reconciler asks for

    @property
    def exits(self) -> Exits:
        """What has ended, in order."""
        return self._exits

    @property
    def node(self) -> str:
        """No name: every pod's spec names its node."""
        return ""

    @property
    def is_far(self) -> bool:
        """Nodes may take their time."""
        return True

    def runtime_dir(self, job: JobId) -> Path:
        """Return a directory that stands for each node's own, below management's."""
        return self._options.runtime_root / job

    def survivors(self) -> Mapping[JobId, Survivor]:
        """Return the jobs that `resume` found."""
        return self._survivors

    def launch(self, pods: Sequence[PodSpec], request: bytes = b"") -> Mapping[PodName, int]:
        """Start the pods of one job on their nodes, all or none."""
        job = pods[0].job
        groups: dict[str, list[PodSpec]] = {}
        for spec in pods:
            groups.setdefault(spec.node, []).append(spec)
        pods[0].work_dir.mkdir(parents=True, exist_ok=True)  # nodes look for it before they begin
        write_request(pods[0].work_dir, request)
        with self._changed:
            known = self._jobs.get(job)
            if known is not None and all(part.is_launched for part in known.values()):
                return {name: pid for part in known.values() for name, pid in part.pids.items()}
            links = {node: self._link(node, specs) for node, specs in groups.items()}
            self._jobs[job] = {
                node: PodsOnNode(roles={spec.name: spec.role for spec in specs})
                for node, specs in groups.items()
            }
        try:
            self._ask(links, {node: pb.NodeOrder(prepare=_pods(p)) for node, p in groups.items()})
            orders = {node: pb.NodeOrder(launch=_pods(p)) for node, p in groups.items()}
            replies = self._ask(links, orders)
        except ClusterError as error:
            self._undo(job)
            raise ClusterError(f"Job {job} was not launched: {error.message}") from error
        with self._changed:
            if (parts := self._jobs.get(job)) is None:
                raise ClusterError(f"Job {job} was launched while all pods were ended.")
            for node, reply in replies.items():
                parts[node].pids = {PodName(name): pid for name, pid in reply.pids.items()}
                parts[node].is_launched = True
            return {name: pid for part in parts.values() for name, pid in part.pids.items()}

    def stop(self, job: JobId) -> None:
        """End everything of a job; a `JobStopped` follows in `exits`, also if nothing ran."""
        with self._changed:
            self._stopping.add(job)
            for node, part in self._jobs.get(job, {}).items():
                if not part.is_stopped:
                    self._tell(node, pb.NodeOrder(stop=job))
            self._finish_stopping(job)

    def forget(self, job: JobId) -> None:
        """Take note that the end of a stopped job is recorded."""
        with self._changed:
            for node in self._jobs.pop(job, {}):
                self._tell(node, pb.NodeOrder(forget=job))
            self._stopping.discard(job)

    def close(self) -> None:
        """End every pod; the agents wait for the next management."""
        with self._changed:
            jobs = list(self._jobs)
            for job in jobs:
                self.stop(job)
            self._changed.wait_for(lambda: not any(map(self._is_there, jobs)), _ORDER_SECONDS)
            for job in jobs:
                self.forget(job)
            links = [node.link for node in self._nodes.values() if node.link is not None]
        for link in links:
            link.close()
        self.abandon()

    def abandon(self) -> None:
        """Leave every pod to the next management."""
        self._is_closed.set()
        self._watcher.join()

    # What management asks for

    def nodes(self) -> tuple[NodeView, ...]:
        """Return the nodes that are there, by name."""
        with self._changed:
            return tuple(
                node.view for _, node in sorted(self._nodes.items()) if node.link is not None
            )

    def jobs_on(self, name: str) -> frozenset[JobId]:
        """Return the jobs with pods on a node."""
        with self._changed:
            return frozenset(job for job, parts in self._jobs.items() if name in parts)

    def hosts_of(self, pod: PodName, job: JobId) -> frozenset[str]:
        """Return by what the node of a job's pod is reached; empty if it is not known."""
        with self._changed:
            parts = self._jobs.get(job, {}).items()
            nodes = [name for name, part in parts if pod in part.roles or pod in part.pids]
            return frozenset().union(
                *(self._nodes[n].view.hosts for n in nodes if n in self._nodes)
            )

    def load(self, name: str) -> tuple[float, float]:
        """Return how busy a node's cores are and how full its memory is, in percent."""
        with self._changed:
            beat = node.beat if (node := self._nodes.get(name)) is not None else pb.NodeBeat()
            return beat.cpu_percent, beat.memory_percent

    def resume(
        self, launched: Mapping[JobId, Sequence[ExpectedPod]], launching: Iterable[JobId]
    ) -> None:
        """Find the jobs of an earlier management; waits for their nodes, but not for long.

        Args:
            launched: Pods of every job that has not ended and was to be launched.
            launching: Which of these were perhaps launched in part.
        """
        wanted = {pod.node for pods in launched.values() for pod in pods}
        with self._changed:
            self._changed.wait_for(
                lambda: all(self._is_connected(node) for node in wanted),
                self._options.grace_seconds,
            )
            found: dict[JobId, Survivor] = {}
            for job in list(self._jobs):
                if self._is_torn(job, launched.get(job, ()), launching):
                    self._undo(job)
                else:
                    found[job] = self._survivor(job, launched.get(job, ()))
            self._survivors, self._is_resumed = found, True

    # What the connections of agents tell

    def attach(self, hello: pb.NodeHello) -> NodeLink:
        """Take a node in, with all that it has; return its connection.

        Raises:
            ConflictError: Another node of that name, at another address, is there.
            UserError: It says an address at which no node can be.
        """
        view = NodeView(
            name=hello.name,
            address=hello.address,
            roles=tuple(hello.roles),
            cores=NodeCores(
                num_cores=hello.num_cores,
                machine=hello.machine,
                machine_cores=hello.machine_cores,
            ),
            memory_bytes=hello.memory_bytes,
            public_host=hello.public_host,
        )
        view.check_hosts(takes_loopback=self._options.takes_loopback)
        link = NodeLink(hello.name)
        welcome = pb.NodeWelcome(stream_identity=self._options.stream_identity)
        link.tell(pb.NodeOrder(welcome=welcome))
        with self._changed:
            before, now = self._nodes.get(hello.name), self._clock.monotonic_seconds()
            if before is not None and before.link is not None:
                is_moved = before.view.address != hello.address
                if is_moved and now - before.heard_seconds < _ALIVE_SECONDS:
                    raise ConflictError(
                        f"A node {hello.name!r} is there already, at {before.view.address}; "
                        f"the one at {hello.address} needs another name.",
                        hint="Give it one with --name.",
                    )
                before.link.close()
            self._nodes[hello.name] = KnownNode(view=view, link=link, heard_seconds=now)
            held = node_messages.survivors(hello)
            for job, survivor in held.items():
                self._meet(hello.name, job, survivor)
            for job, parts in list(self._jobs.items()):
                part = parts.get(hello.name)
                if part is not None and part.is_launched and job not in held:
                    self._lose_part(job, hello.name, "it has been started anew without its pods")
            self._changed.notify_all()
        logger.info("Node has joined", extra={"node": hello.name, "address": hello.address})
        self._on_change()
        return link

    def detach(self, link: NodeLink) -> None:
        """Take note that the connection of a node broke."""
        link.close()
        with self._changed:
            node = self._nodes.get(link.name)
            if node is None or node.link is not link:
                return
            node.link, node.heard_seconds = None, self._clock.monotonic_seconds()
            self._changed.notify_all()
        logger.warning("Node is away", extra={"node": link.name})
        self._on_change()

    def take(self, link: NodeLink, report: pb.NodeReport) -> None:
        """Take what a node reports."""
        with self._changed:
            node = self._nodes.get(link.name)
            if node is None or node.link is not link:
                return  # it has joined anew meanwhile, and told all there
            node.heard_seconds = self._clock.monotonic_seconds()
            match report.WhichOneof("kind"):
                case "reply":
                    link.take_reply(report.reply)
                case "beat":
                    node.beat = report.beat
                case "pod_ended":
                    self._take_exit(link.name, node_messages.pod_exit(report.pod_ended))
                case "job_stopped":
                    self._take_stopped(link.name, JobId(report.job_stopped))
                case "pods_lost":
                    for job in report.pods_lost.jobs:
                        self._lose_part(JobId(job), link.name, report.pods_lost.reason)
                case "hello" | None:
                    logger.warning("A node's report is not understood", extra={"node": link.name})

    # Everything below is called with the lock held

    def _link(self, name: str, specs: Sequence[PodSpec]) -> NodeLink:
        node = self._nodes.get(name)
        if node is not None and node.link is not None:
            return node.link
        where = f"Node {name!r} is away" if name else "No node fits"
        raise ClusterError(f"{where}, and {len(specs)} pods, {specs[0].name} first, need it.")

    def _is_connected(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is not None and node.link is not None

    def _tell(self, name: str, order: pb.NodeOrder) -> None:
        node = self._nodes.get(name)
        if node is not None and node.link is not None:
            node.link.tell(order)

    def _meet(self, name: str, job: JobId, held: Survivor) -> None:
        """Compare a node's pods of a job with the expected ones."""
        part = self._jobs.get(job, {}).get(name)
        if part is None and self._is_resumed:
            self._tell(
                name, pb.NodeOrder(forget=job) if held.is_stopped else pb.NodeOrder(stop=job)
            )
            return
        if part is None:
            part = PodsOnNode(roles={end.pod: end.role for end in held.exits})
            self._jobs.setdefault(job, {})[name] = part
        part.pids, part.is_launched = dict(held.pids), bool(held.pids)
        for end in held.exits:
            self._take_exit(name, end)
        if held.is_stopped:
            self._take_stopped(name, job)
        elif part.is_stopped or job in self._stopping:  # counted as lost, and it lives
            self._tell(name, pb.NodeOrder(stop=job))

    def _take_exit(self, name: str, end: PodExit) -> None:
        part = self._jobs.get(end.job, {}).get(name)
        if part is not None and end.pod not in part.ended:
            part.ended.add(end.pod)
            part.roles.setdefault(end.pod, end.role)
            self._exits.put(end)

    def _take_stopped(self, name: str, job: JobId) -> None:
        part = self._jobs.get(job, {}).get(name)
        if part is None:
            self._tell(name, pb.NodeOrder(forget=job))  # it was an orphan
            return
        part.is_stopped = True
        self._finish_stopping(job)
        self._changed.notify_all()

    def _finish_stopping(self, job: JobId) -> None:
        if job in self._stopping and not self._is_there(job):
            self._stopping.discard(job)
            self._exits.put(JobStopped(job=job))

    def _is_there(self, job: JobId) -> bool:
        return any(not part.is_stopped for part in self._jobs.get(job, {}).values())

    def _lose_part(self, job: JobId, name: str, why: str) -> None:
        """Count the pods of a job on a node as ended, its coordinator first."""
        part = self._jobs.get(job, {}).get(name)
        if part is None or part.is_stopped:
            return
        for end in _lost_exits(job, name, part, why):
            self._take_exit(name, end)
        part.is_stopped = True
        self._finish_stopping(job)
        self._changed.notify_all()

    def _is_torn(self, job: JobId, pods: Sequence[ExpectedPod], launching: Iterable[JobId]) -> bool:
        """Whether management ended while it launched a job: only some nodes have got their pods."""
        parts = self._jobs[job]
        return job in set(launching) and not {pod.node for pod in pods} <= set(parts)

    def _survivor(self, job: JobId, pods: Sequence[ExpectedPod]) -> Survivor:
        """Return what is left of a job; what a node that is not there had counts as lost."""
        parts = self._jobs[job]
        for pod in pods:
            if pod.node not in parts:
                parts[pod.node] = PodsOnNode(roles={}, is_launched=True)
            parts[pod.node].roles.setdefault(pod.name, pod.role)
        for node, part in parts.items():
            if not part.pids and not part.is_stopped:
                self._lose_part(job, node, "it was away when management was started anew")
        exits = self._drain(job)
        return Survivor(
            pids={name: pid for part in parts.values() for name, pid in part.pids.items()},
            exits=exits,
            is_stopped=not self._is_there(job),
        )

    def _drain(self, job: JobId) -> tuple[PodExit, ...]:
        """Remove a job's exits from the queue, because the reconciler learns of them otherwise."""
        ends: list[Exit] = []
        while not self._exits.empty():
            ends.append(self._exits.get())
        mine = [end for end in ends if isinstance(end, PodExit) and end.job == job]
        for end in ends:
            if end not in mine:
                self._exits.put(end)
        return tuple(mine)

    # Everything below takes the lock itself

    def _ask(
        self, links: Mapping[str, NodeLink], orders: Mapping[str, pb.NodeOrder]
    ) -> Mapping[str, pb.OrderReply]:
        """Give each node its order and return the answers.

        Raises:
            ClusterError: One refuses, or does not answer; the message names it.
        """
        numbers = {node: links[node].begin(order) for node, order in orders.items()}
        seconds = _ORDER_SECONDS
        replies = {node: links[node].wait(number, seconds) for node, number in numbers.items()}
        errors = [f"node {node!r} refuses: {r.error}" for node, r in replies.items() if r.error]
        if errors:
            raise ClusterError("; ".join(errors) + ".")
        return replies

    def _undo(self, job: JobId) -> None:
        """End what some nodes have begun of a job, and forget it."""
        with self._changed:
            parts = self._jobs.get(job, {})
            for node in parts:
                self._tell(node, pb.NodeOrder(stop=job))
            self._changed.wait_for(
                lambda: all(p.is_stopped or not self._is_connected(n) for n, p in parts.items()),
                _ORDER_SECONDS,
            )
            self.forget(job)

    def _watch(self) -> None:
        """Look for nodes that are silent, and for those that are away for too long."""
        while not self._is_closed.wait(_WATCH_SECONDS):
            now = self._clock.monotonic_seconds()
            with self._changed:
                silent = [
                    node.link
                    for node in self._nodes.values()
                    if node.link is not None and now - node.heard_seconds > _SILENCE_SECONDS
                ]
                gone = [
                    name
                    for name, node in self._nodes.items()
                    if node.link is None and now - node.heard_seconds > self._options.grace_seconds
                ]
                for name in gone:
                    self._lose_node(name)
            for link in silent:
                self.detach(link)

    def _lose_node(self, name: str) -> None:
        del self._nodes[name]
        seconds = self._options.grace_seconds
        logger.error("Node is lost", extra={"node": name})
        for job, parts in list(self._jobs.items()):
            if name in parts:
                self._lose_part(job, name, f"its agent has not been heard of for {seconds:g} s")


def _pods(specs: Iterable[PodSpec]) -> pb.Pods:
    return pb.Pods(specs=[spec.to_json() for spec in specs])


def _lost_exits(job: JobId, node: str, part: PodsOnNode, why: str) -> Iterator[PodExit]:
    order = sorted(part.roles.items(), key=lambda item: item[1] is not Role.COORDINATOR)
    for name, role in order:
        yield PodExit(
            job=job,
            pod=name,
            role=role,
            exit_code=_LOST_CODE,
            detail=f"its node {node!r} {LOST}{why}",
            cause=EndCause.NODE_LOST,
        )
