"""gRPC between nodes: proven, encrypted if wished, made anew after a cut."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc
import pytest

from appliance.core.clock import SystemClock
from appliance.core.errors import UserError
from appliance.core.ids import Role
from appliance.core.pods.pod_options import PodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.management.access.stream_secrets import ensure_identity
from appliance.management.pods.coordinators import (
    CoordinatorAddresses,
    Coordinators,
    FarCoordinators,
)
from appliance.management.pods.inner_listener import JobKeys, open_inner_listener
from appliance.pods.peers import Peers
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.server import NetworkServer
from appliance.streams.network.tunnel import CONTROL, Bridge, KnownOnce, TunnelService
from protos.wsc.v1 import management_pb2 as pb
from protos.wsc.v1 import management_pb2_grpc
from tests.support.faulty_link import FaultyLink
from tests.support.pod_processes import PodProcess, make_job
from tests.support.waiting import wait_until

_SECONDS = 120.0
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 100),
]


class Management(management_pb2_grpc.ManagementServicer):
    """Knows one coordinator once it is told; takes reports of any size."""

    def __init__(self):
        self.address = ""
        self.asked = threading.Event()

    def FindCoordinator(self, request, context):
        self.asked.set()
        return pb.FindCoordinatorReply(control_address=self.address)

    def ReportJob(self, request, context):
        return pb.JobReportReply()


class JobControl(management_pb2_grpc.JobControlServicer):
    def __init__(self):
        self.reasons = []
        self.told = threading.Event()

    def Shutdown(self, request, context):
        self.reasons.append(request.reason)
        self.told.set()
        return pb.ShutdownReply()


@contextlib.contextmanager
def serving(path, add, servicer):
    """Serve something on a Unix socket."""
    server = grpc.server(ThreadPoolExecutor(8), options=_OPTIONS)
    add(servicer, server)
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield f"unix:{path}"
    finally:
        server.stop(None).wait()


@contextlib.contextmanager
def far_management(tmp_path, options):
    """Yield the network server behind which management is, and management."""
    management = Management()
    add = management_pb2_grpc.add_ManagementServicer_to_server
    with serving(tmp_path / "far.sock", add, management) as target:
        server = NetworkServer(options, owner="management", clock=SystemClock())
        server.offer(CONTROL, TunnelService(target))
        try:
            yield server, management
        finally:
            server.close()


@contextlib.contextmanager
def near_end(tmp_path, find, options):
    """Yield a bridge, a channel over it and a stub of management's service."""
    bridge = Bridge(
        tmp_path / "near.sock", find, hello={}, label="test", options=options, clock=SystemClock()
    )
    with grpc.insecure_channel(bridge.target, options=_OPTIONS) as channel:
        yield bridge, management_pb2_grpc.ManagementStub(channel)
    bridge.close()
    assert not (tmp_path / "near.sock").exists()


def ask(stub):
    request = pb.FindCoordinatorRequest(job="wsjob-a")
    return stub.FindCoordinator(request, timeout=_SECONDS, wait_for_ready=True).control_address


@pytest.mark.parametrize("has_tls", [False, True])
def test_calls_of_any_size_go_through_a_tunnel(tmp_path, has_tls):
    identity = ensure_identity(tmp_path / "id.pem", SystemClock()) if has_tls else None
    options = NetworkOptions(key=b"the key", identity=identity)
    with (
        far_management(tmp_path, options) as (server, management),
        near_end(tmp_path, lambda: server.address, options) as (_, stub),
    ):
        management.address = "10.0.0.7:4711"
        assert ask(stub) == "10.0.0.7:4711"
        report = pb.JobReport(job="wsjob-a", message="x" * 30_000_000)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: stub.ReportJob(report, timeout=_SECONDS), range(4)))


def test_a_tunnel_that_is_cut_is_made_anew(tmp_path):
    options = NetworkOptions(key=b"the key")
    with (
        far_management(tmp_path, options) as (server, management),
        FaultyLink(server.address, cut_every=20_000) as link,
        near_end(tmp_path, lambda: link.address, options) as (_, stub),
    ):
        management.address = "x" * 5_000
        num_answered = 0
        while num_answered < 20:
            with contextlib.suppress(grpc.RpcError):
                assert ask(stub) == management.address
                num_answered += 1
        assert link.num_cuts >= 3


def test_who_does_not_know_the_key_gets_nothing_through(tmp_path):
    with (
        far_management(tmp_path, NetworkOptions(key=b"the key")) as (server, management),
        near_end(tmp_path, lambda: server.address, NetworkOptions(key=b"a guess")) as (
            bridge,
            stub,
        ),
    ):
        with pytest.raises(grpc.RpcError):
            stub.FindCoordinator(pb.FindCoordinatorRequest(job="wsjob-a"), timeout=_SECONDS)
        assert "does not know the key" in bridge.trouble
        assert not management.asked.is_set()


def test_a_plain_peer_gets_nothing_out_of_an_encrypted_tunnel(tmp_path):
    identity = ensure_identity(tmp_path / "id.pem", SystemClock())
    encrypted = NetworkOptions(key=b"the key", identity=identity)
    plain = NetworkOptions(key=b"the key", connect_seconds=0.3)
    with (
        far_management(tmp_path, encrypted) as (server, management),
        near_end(tmp_path, lambda: server.address, plain) as (bridge, stub),
    ):
        with pytest.raises(grpc.RpcError):
            stub.FindCoordinator(pb.FindCoordinatorRequest(job="wsjob-a"), timeout=_SECONDS)
        assert bridge.trouble
        assert not management.asked.is_set()


def test_an_address_is_asked_for_until_it_is_known(tmp_path):
    options = NetworkOptions(key=b"the key")
    answers = iter(["", "", "found"])
    with far_management(tmp_path, options) as (server, _):
        find = KnownOnce(lambda: server.address if next(answers) else "", what="coordinator-0")
        with near_end(tmp_path, find, options) as (_, stub):
            assert ask(stub) == ""
    assert next(answers, "none left") == "none left"


def spec_of(tmp_path, role, management_address, nodes):
    return PodSpec.from_json(
        PodSpec(
            job="wsjob-a",
            role=Role(role),
            index=0,
            runtime_dir=tmp_path,
            work_dir=tmp_path,
            management_address=management_address,
            options=PodOptions(stream_key=JobKeys(b"secret", "").text_of("wsjob-a")),
            nodes=nodes,
        ).to_json()
    )


def test_a_pod_finds_its_coordinator_and_management_finds_it_too(tmp_path):
    clock, keys = SystemClock(), JobKeys(b"secret", "")
    nodes = {"coordinator-0": "a", "chief-0": "b", "management": "m"}
    management, control = Management(), JobControl()
    add_management = management_pb2_grpc.add_ManagementServicer_to_server
    add_control = management_pb2_grpc.add_JobControlServicer_to_server
    with contextlib.ExitStack() as stack:
        inner = stack.enter_context(serving(tmp_path / "m.sock", add_management, management))
        listener = open_inner_listener("127.0.0.1", 0, inner, keys, clock)
        stack.callback(listener.close)
        crd = spec_of(tmp_path, "coordinator", listener.address, nodes)
        stack.enter_context(serving(tmp_path / "coordinator-0.sock", add_control, control))
        there = NetworkServer(keys.options_of(crd.job), owner=crd.name, clock=clock)
        stack.callback(there.close)
        there.offer(CONTROL, TunnelService(crd.control_address()))

        peers = Peers(spec_of(tmp_path, "chief", listener.address, nodes), clock)
        stack.callback(peers.close)
        channel = stack.enter_context(grpc.insecure_channel(peers.coordinator(), _OPTIONS))
        stub = management_pb2_grpc.JobControlStub(channel)
        call = stub.Shutdown.future(
            pb.ShutdownRequest(reason="found"), timeout=_SECONDS, wait_for_ready=True
        )
        assert management.asked.wait(_SECONDS)
        management.address = there.address  # it registers only after the pod has asked
        call.result(_SECONDS)

        addresses = CoordinatorAddresses(tmp_path / "jobs")
        (tmp_path / "jobs" / crd.job).mkdir(parents=True)
        addresses.note(crd.job, there.address)
        assert CoordinatorAddresses(tmp_path / "jobs").find(crd.job) == there.address
        with pytest.raises(UserError, match="is no name of a file"):
            addresses.find("../jobs/wsjob-a")
        coordinators = Coordinators(FarCoordinators(addresses, tmp_path, keys.options_of, clock))
        stack.callback(coordinators.close)
        control.told.clear()
        coordinators.tell_end(
            crd.job, tmp_path / "no", reason="over", is_failure=False, pod="", is_preemption=False
        )
        assert control.told.wait(_SECONDS)
        assert control.reasons == ["found", "over"]
        addresses.forget(crd.job)  # as before another run of the job
        assert addresses.find(crd.job) == ""


def test_a_pod_of_another_job_does_not_pass_the_inner_listener(tmp_path):
    clock = SystemClock()
    management = Management()
    add = management_pb2_grpc.add_ManagementServicer_to_server
    with serving(tmp_path / "m.sock", add, management) as inner:
        listener = open_inner_listener("127.0.0.1", 0, inner, JobKeys(b"secret", ""), clock)
        stranger = JobKeys(b"secret", "").options_of("wsjob-b")
        bridge = Bridge(
            tmp_path / "near.sock",
            lambda: listener.address,
            hello={"job": "wsjob-a"},
            label="test",
            options=stranger,
            clock=clock,
        )
        with grpc.insecure_channel(bridge.target) as channel, pytest.raises(grpc.RpcError):
            management_pb2_grpc.ManagementStub(channel).ReportJob(pb.JobReport(), timeout=_SECONDS)
        assert "does not know the key" in bridge.trouble
        bridge.close()
        listener.close()


@pytest.mark.slow
def test_a_pod_outlives_a_line_to_its_coordinator_that_is_dead_for_a_while(tmp_path):
    clock, keys = SystemClock(), JobKeys(b"secret", "")
    management = Management()
    add = management_pb2_grpc.add_ManagementServicer_to_server
    with contextlib.ExitStack() as stack:
        job = stack.enter_context(make_job(tmp_path))
        inner = stack.enter_context(serving(tmp_path / "m.sock", add, management))
        listener = open_inner_listener("127.0.0.1", 0, inner, keys, clock)
        stack.callback(listener.close)
        options = keys.options_of(job.spec("chief").job)
        there = NetworkServer(options, owner="coordinator-0", clock=clock)
        stack.callback(there.close)
        there.offer(CONTROL, TunnelService(f"unix:{job.runtime_dir}/coordinator-0.sock"))
        link = stack.enter_context(FaultyLink(there.address))
        management.address = link.address
        spec = replace(
            job.spec("chief", stream_key=options.key.decode()),
            management_address=listener.address,
            nodes={"coordinator-0": "a", "chief-0": "b", "management": "m"},
        )
        process = PodProcess("tests.support.trivial_pod", spec)
        job.processes.append(process)
        job.wait_until_registered()
        registered = job.coordinator.registered[spec.name]
        assert registered.stream_address.startswith("127.0.0.1:")
        job.coordinator.next_heartbeat(spec.name)
        link.hold()
        wait_until(
            lambda: process.log().count("Heartbeat failed") >= 3, seconds=120, what="3 are missed"
        )
        link.go_on()
        job.coordinator.next_heartbeat(spec.name)
        assert process.process.poll() is None
