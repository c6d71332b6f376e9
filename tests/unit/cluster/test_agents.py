"""The launcher over nodes: what it orders, and what it makes of what nodes tell."""

import queue
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.cluster.agents import AgentLauncher, AgentsOptions
from appliance.cluster.known_nodes import ExpectedPod
from appliance.cluster.launcher import JobStopped, PodExit
from appliance.cluster.node_cores import NodeCores
from appliance.core.clock import SystemClock
from appliance.core.errors import ClusterError, ConflictError, UserError
from appliance.core.ids import JobId, PodName, Role
from appliance.core.pods.pod_options import PodOptions
from appliance.core.pods.pod_spec import PodSpec
from protos.wsc.v1 import nodes_pb2 as pb

JOB = JobId("wsjob-a")
SECONDS = 120.0
CHIEF = PodName("wsjob-a-chief-0")
CRD = PodName("wsjob-a-coordinator-0")


class PlayedNode:
    """An agent played in a thread: obeys every order, unless it is told to refuse."""

    def __init__(self, launcher, name, *, jobs=(), refuses="", address="10.0.0.1", public=""):
        self.launcher, self.name, self.refuses = launcher, name, refuses
        self.orders = []
        self.is_told = threading.Condition()
        hello = pb.NodeHello(
            name=name, address=address, public_host=public, roles=["worker"], jobs=jobs
        )
        self.link = launcher.attach(hello)
        self._thread = threading.Thread(target=self._obey, daemon=True)
        self._thread.start()

    def _obey(self):
        for order in iter(self.link.orders.get, None):
            kind = order.WhichOneof("kind")
            with self.is_told:
                self.orders.append(kind)
                self.is_told.notify_all()
            if kind in ("prepare", "launch"):
                specs = [PodSpec.from_json(text) for text in getattr(order, kind).specs]
                error = self.refuses if kind == "prepare" else ""
                pids = {spec.name: 100 for spec in specs} if kind == "launch" else {}
                reply = pb.OrderReply(order=order.number, error=error, pids=pids)
                self.tell(reply=reply)
            if kind == "stop":
                self.tell(job_stopped=order.stop)

    def tell(self, **report):
        self.launcher.take(self.link, pb.NodeReport(**report))

    def wait_told(self, *kinds):
        with self.is_told:
            assert self.is_told.wait_for(lambda: self.orders == list(kinds), SECONDS), self.orders

    def leave(self):
        self.launcher.detach(self.link)


@pytest.fixture
def launcher(tmp_path):
    made = []

    def make(*, grace_seconds=SECONDS, is_resumed=True, takes_loopback=True):
        options = AgentsOptions(
            runtime_root=tmp_path,
            stream_identity=b"",
            grace_seconds=grace_seconds,
            takes_loopback=takes_loopback,
        )
        made.append(AgentLauncher(options, SystemClock()))
        if is_resumed:
            made[-1].resume({}, ())
        return made[-1]

    yield make
    for each in made:
        each.abandon()


def specs(*places):
    common = PodSpec(
        job=JOB,
        role=Role.COORDINATOR,
        index=0,
        runtime_dir=Path("/r"),
        work_dir=Path("/w"),
        management_address="",
    )
    roles = (Role.COORDINATOR, Role.CHIEF)
    return [
        replace(common, role=role, node=node, options=PodOptions())
        for role, node in zip(roles, places, strict=True)
    ]


def next_end(launcher):
    return launcher.exits.get(timeout=SECONDS)


def held(job=JOB, *, pod=CRD, is_stopped=False):
    return pb.HeldJob(job=job, pids={pod: 100}, is_stopped=is_stopped)


def expected(*nodes):
    pods = ((CRD, Role.COORDINATOR), (CHIEF, Role.CHIEF))
    return {
        JOB: [
            ExpectedPod(name=name, role=role, node=node)
            for (name, role), node in zip(pods, nodes, strict=True)
        ]
    }


def test_a_node_tells_its_cores_and_those_of_its_machine(launcher):
    agents = launcher()
    hello = pb.NodeHello(name="a", num_cores=2, machine="m", machine_cores=8)
    agents.attach(hello)
    (view,) = agents.nodes()
    assert view.cores == NodeCores(num_cores=2, machine="m", machine_cores=8)


def test_a_gang_is_launched_in_two_rounds_and_only_once(launcher):
    over = launcher()
    nodes = [PlayedNode(over, name) for name in ("a", "b")]
    assert over.launch(specs("a", "b")) == {CRD: 100, CHIEF: 100}
    assert over.launch(specs("a", "b")) == {CRD: 100, CHIEF: 100}
    for node in nodes:
        node.wait_told("welcome", "prepare", "launch")
    over.stop(JOB)
    assert next_end(over) == JobStopped(job=JOB)
    over.forget(JOB)
    for node in nodes:
        node.wait_told("welcome", "prepare", "launch", "stop", "forget")


def test_nothing_is_launched_of_a_gang_that_a_node_refuses_or_is_not_there_for(launcher):
    over = launcher()
    willing, unwilling = PlayedNode(over, "a"), PlayedNode(over, "b", refuses="its disk is full")
    message = "Job wsjob-a was not launched: node 'b' refuses: its disk is full."
    with pytest.raises(ClusterError, match=message):
        over.launch(specs("a", "b"))
    willing.wait_told("welcome", "prepare", "stop", "forget")
    unwilling.leave()
    with pytest.raises(ClusterError, match="Node 'b' is away, and 1 pods, wsjob-a-chief-0 first"):
        over.launch(specs("a", "b"))
    willing.wait_told("welcome", "prepare", "stop", "forget")
    over.stop(JOB)
    assert next_end(over) == JobStopped(job=JOB)


def test_the_pods_of_a_node_that_stays_away_have_ended(launcher):
    over = launcher(grace_seconds=0.3)
    PlayedNode(over, "a")
    gone = PlayedNode(over, "b")
    over.launch(specs("a", "b"))
    gone.leave()
    end = next_end(over)
    assert (end.pod, end.exit_code) == (CHIEF, 137)
    assert end.reason.endswith("its node 'b' was lost: its agent has not been heard of for 0.3 s")
    assert [view.name for view in over.nodes()] == ["a"]
    over.stop(JOB)
    assert next_end(over) == JobStopped(job=JOB)


def test_what_happened_while_a_node_was_away_is_told_once(launcher):
    over = launcher()
    PlayedNode(over, "a")
    node = PlayedNode(over, "b")
    over.launch(specs("a", "b"))
    ended = pb.PodEnded(job=JOB, pod=CHIEF, role="chief", exit_code=3)
    node.tell(pod_ended=ended)
    node.leave()
    again = held(pod=CHIEF)
    again.exits.append(ended)
    PlayedNode(over, "b", jobs=[again])
    assert next_end(over) == PodExit(job=JOB, pod=CHIEF, role=Role.CHIEF, exit_code=3)
    with pytest.raises(queue.Empty):
        over.exits.get_nowait()


def test_a_node_that_comes_back_without_its_pods_has_lost_them(launcher):
    over = launcher()
    PlayedNode(over, "a")
    node = PlayedNode(over, "b")
    over.launch(specs("a", "b"))
    node.leave()
    PlayedNode(over, "b")
    assert "started anew without its pods" in next_end(over).reason


def test_what_nobody_asked_for_is_ended(launcher):
    over = launcher()
    node = PlayedNode(over, "a", jobs=[held(), held("wsjob-b", is_stopped=True)])
    node.wait_told("welcome", "stop", "forget", "forget")
    assert over.survivors() == {}


def test_a_new_management_finds_jobs_and_ends_those_that_were_launched_in_part(launcher):
    over = launcher(is_resumed=False)
    PlayedNode(over, "a", jobs=[held()])
    PlayedNode(over, "b", jobs=[held(pod=CHIEF)])
    over.resume(expected("a", "b"), ())
    assert over.survivors()[JOB].pids == {CRD: 100, CHIEF: 100}
    torn = launcher(is_resumed=False)
    node = PlayedNode(torn, "a", jobs=[held()])
    PlayedNode(torn, "b")
    torn.resume(expected("a", "b"), [JOB])
    assert torn.survivors() == {}
    node.wait_told("welcome", "stop", "forget")


def test_a_new_management_counts_what_a_missing_node_had_as_lost(launcher):
    over = launcher(grace_seconds=0.2, is_resumed=False)
    PlayedNode(over, "a", jobs=[held()])
    over.resume(expected("a", "b"), ())
    found = over.survivors()[JOB]
    (end,) = found.exits
    assert (end.pod, found.is_stopped) == (CHIEF, False)
    assert "was lost: it was away when management was started anew" in end.reason


def test_a_second_node_of_a_name_is_refused_while_the_first_lives(launcher):
    over = launcher()
    PlayedNode(over, "a")
    with pytest.raises(ConflictError, match=r"A node 'a' is there already, at 10.0.0.1"):
        PlayedNode(over, "a", address="10.0.0.2")
    PlayedNode(over, "a")


def test_a_pod_is_where_its_node_says_and_one_that_was_not_placed_nowhere(launcher):
    here = launcher()
    PlayedNode(here, "first", address="10.0.0.1", public="front.example")
    PlayedNode(here, "second", address="10.0.0.2")
    here.launch(specs("first", "second"))
    assert here.hosts_of(CRD, JOB) == {"10.0.0.1", "front.example"}
    assert here.hosts_of(CHIEF, JOB) == {"10.0.0.2"}
    assert here.hosts_of(PodName("wsjob-b-coordinator-0"), JobId("wsjob-b")) == frozenset()


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "::ffff:169.254.169.254"],
)
def test_a_node_is_not_where_no_node_can_be(launcher, address):
    for hello in ({"address": address}, {"public": address}):
        with pytest.raises(UserError, match="others cannot reach it"):
            PlayedNode(launcher(), "first", **hello)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost", "a.LocalHost."]
)
def test_a_node_elsewhere_is_not_at_managements_own_loopback(launcher, address):
    with pytest.raises(UserError, match="others cannot reach it"):
        PlayedNode(launcher(takes_loopback=False), "first", address=address)
    PlayedNode(launcher(takes_loopback=True), "first", address=address)
