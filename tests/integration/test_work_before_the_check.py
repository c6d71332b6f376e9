"""Nobody makes the appliance work, or fills its memory, before it is known that they may."""

import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from subprocess import PIPE

import grpc
import httpx
import psutil
import pytest

from appliance.api.slow_senders import HEAD_SECONDS
from appliance.core.access_rules.model import ALLOWANCES, Cost
from protos.cluster import cluster_pb2, cluster_pb2_grpc
from tests.support.appliance import ROOT
from tests.support.appliance_process import (
    REAL_COORDINATOR,
    running_appliance,
    wait_for,
    wait_pods,
)
from tests.support.processes import command_of
from tests.support.rest import mint, rest_client
from tests.support.waiting import patience

MIB = 1 << 20
STRANGER = 65534
COSTLY = {"layers": 10_000, "hidden": 4096, "systems": 100_000}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    with running_appliance(data, "--tls", "--tokens") as running:
        yield running


@pytest.fixture(scope="module")
def tokens(appliance):
    people = (("root", 0), ("ada", 1000), ("eve", 1001))
    return {name: mint(appliance, name, "--uid", str(uid)) for name, uid in people}


def memory_of(appliance) -> int:
    return psutil.Process(appliance.state.pid).memory_info().rss


def estimators(appliance) -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process(appliance.state.pid).children(recursive=True)
        if "appliance.management.background.estimate_process" in command_of(child)
    ]


class Peak:
    """The most memory that management, or another process, has had inside the block."""

    def __init__(self, appliance, pid: int = 0) -> None:
        self._process = psutil.Process(pid or appliance.state.pid)
        self._is_over = threading.Event()
        self.num_bytes = self._process.memory_info().rss

    def __enter__(self):
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.01):
            self.num_bytes = max(self.num_bytes, self._process.memory_info().rss)


@pytest.mark.parametrize("metadata", [(), (("auth-token", "none"),)], ids=["no token", "wrong"])
def test_a_message_of_300_mb_is_not_read_before_its_token(appliance, metadata):
    method = "/cluster.cluster_mgmt_pb.ClusterManagement/InitExecuteJob"
    before = memory_of(appliance)
    with Peak(appliance) as peak, appliance.connect(max_send_message_length=-1) as each:
        call = each.unary_unary(method, _registered_method=False)
        with pytest.raises(grpc.RpcError) as refused:
            call(b"x" * (300 * MIB), metadata=metadata, timeout=120)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert peak.num_bytes - before < 20 * MIB


def test_a_stranger_who_sends_nothing_takes_no_first_call_of_a_client(appliance, tokens):
    """All of them come from the same address, behind the one port."""
    first, is_over = "/cluster.cluster_mgmt_pb.ClusterManagement/GetServerConfig", threading.Event()

    def nothing():
        is_over.wait(300)
        yield from ()

    def is_refused(call):
        return call.done() and call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    apart = {"use_local_subchannel_pool": 1}
    with appliance.connect(**apart) as theirs, appliance.connect(**apart) as ours:
        call = theirs.stream_unary(first, _registered_method=False)
        most = ALLOWANCES[Cost.LIGHT].per_caller
        silent = [call.future(nothing(), timeout=300) for _ in range(most + 20)]
        try:
            wait_for(lambda: any(map(is_refused, silent)), what="the limit of strangers")
            who = (("auth-token", tokens["ada"]),)
            ours.unary_unary("/wsc.v1.Queue/ListQueue", _registered_method=False)(
                b"", metadata=who, timeout=60
            )
            for _ in range(10):  # without a token, as the client calls it
                ours.unary_unary(first, _registered_method=False)(b"", timeout=60)
        finally:
            is_over.set()


def test_who_may_call_sends_no_more_than_the_method_takes(appliance, tokens):
    method = "/wsc.v1.Queue/ListQueue"
    with appliance.connect() as each:
        call = each.unary_unary(method, _registered_method=False)
        for size in (2 * MIB, 64 * MIB):  # above the method's limit, and above the port's
            with pytest.raises(grpc.RpcError) as refused:
                call(b"x" * size, metadata=(("auth-token", tokens["ada"]),), timeout=120)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_message_is_not_unpacked_beyond_what_the_port_takes(appliance, tokens):
    """Of 256 MiB that are sent as 256 KiB nothing stays, of who may call and of a stranger."""
    before = memory_of(appliance)
    tries = (
        ("/wsc.v1.Queue/ListQueue", (("auth-token", tokens["ada"]),)),
        ("/cluster.cluster_mgmt_pb.ClusterManagement/GetServerConfig", ()),
    )
    with Peak(appliance) as peak, appliance.connect() as each:
        for method, metadata in tries:
            call = each.unary_unary(method, _registered_method=False)
            with pytest.raises(grpc.RpcError) as refused:
                call(
                    bytes(256 * MIB),
                    metadata=metadata,
                    timeout=120,
                    compression=grpc.Compression.Gzip,
                )
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert peak.num_bytes - before < 64 * MIB


def test_messages_of_one_caller_are_read_a_few_at_a_time(appliance, tokens):
    """Three hundred as long as the port takes: what is not read yet stays with its sender."""
    method = "/cluster.cluster_mgmt_pb.ClusterManagement/GetJob"
    data, calls = b"x" * (4 * MIB), []
    before = memory_of(appliance)
    with Peak(appliance) as peak, appliance.connect() as each:
        call = each.unary_unary(method, _registered_method=False)
        who = (("auth-token", tokens["ada"]),)
        calls = [call.future(data, metadata=who, timeout=300) for _ in range(300)]
        codes = {each.code() for each in calls}
    assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert peak.num_bytes - before < 300 * MIB


def test_a_jobs_client_does_not_fill_its_coordinators_memory(tmp_path_factory):
    """Of 32 calls with 64 MiB each a few are read at a time, whatever their method takes."""
    data = tmp_path_factory.mktemp("filled")
    service = "/cerebras.Appliance"
    with running_appliance(data, coordinator=REAL_COORDINATOR) as appliance:
        job = appliance.submit_compile()
        ingress = appliance.wait_ready(job)[-1]
        (pid,) = wait_pods(job, 1)
        before, text = psutil.Process(pid).memory_info().rss, bytes(64 * MIB)
        options = [
            ("grpc.default_authority", ingress.service_authority),
            ("grpc.max_send_message_length", -1),
        ]
        for method in ("UnaryPing", "UnaryRun"):
            with (
                grpc.insecure_channel(ingress.service_url, options) as channel,
                Peak(appliance, pid) as peak,
            ):
                call = channel.unary_unary(f"{service}/{method}", _registered_method=False)
                calls = [call.future(text, timeout=300) for _ in range(32)]
                codes = {each.code() for each in calls}
            assert codes <= {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL}, method
            assert peak.num_bytes - before < 700 * MIB, method


def test_an_estimate_wants_a_token_and_costs_management_nothing(appliance, tokens):
    with rest_client(appliance) as nobody:
        assert nobody.get("estimate", params=COSTLY).status_code == 401
        big = nobody.post("estimate", content=b"x" * (8 * MIB))
        assert big.status_code == 401
    before = memory_of(appliance)
    with Peak(appliance) as peak, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: _ask(appliance, tokens["ada"]), range(6)))
    codes = sorted(answer.status_code for answer in answers)
    assert set(codes) <= {200, 400, 429}
    assert codes.count(429) >= 6 - ALLOWANCES[Cost.HEAVY].per_caller - 1  # one may have ended
    assert peak.num_bytes - before < 60 * MIB
    wait_for(lambda: not estimators(appliance), what="the end of the estimates")


def test_an_estimate_ends_when_its_asker_leaves(appliance, tokens):
    with pytest.raises(httpx.ReadTimeout):
        _ask(appliance, tokens["root"], timeout=httpx.Timeout(120, read=1.5))
    wait_for(lambda: not estimators(appliance), what="the end of the estimate")


def _ask(appliance, token, timeout=120):
    with rest_client(appliance, token) as rest:
        return rest.get("estimate", params=COSTLY, timeout=timeout)


def test_one_user_does_not_take_all_followers(appliance, tokens):
    most = ALLOWANCES[Cost.FOLLOW].per_caller
    limits = httpx.Limits(max_connections=None)
    with rest_client(appliance, tokens["ada"], limits=limits) as ada:
        open_streams = [_open(ada) for _ in range(most)]
        refused = ada.get("stream")
        assert refused.status_code == 429
        assert f"one caller may have {most}" in refused.json()["detail"]
        with rest_client(appliance, tokens["eve"]) as eve:
            _open(eve).close()
        open_streams.pop().close()
        wait_for(lambda: _reopened(ada), what="a place for another follower")
        for stream in open_streams:
            stream.close()


def _open(client):
    answer = client.send(client.build_request("GET", "stream"), stream=True)
    assert answer.status_code == 200, answer.read()
    return answer


def _reopened(client) -> bool:
    answer = client.send(client.build_request("GET", "stream"), stream=True)
    answer.close()
    return answer.status_code == 200


def test_slow_senders_are_hung_up_on(appliance):
    rest, clients = appliance.state.rest_url.rpartition("/")[2], appliance.state.address
    began = time.monotonic()
    senders = {
        "half a head": _connected(appliance, rest, b"GET /healthz HTTP/1.1\r\nHost: "),
        "nothing at all": _connected(appliance, rest, b""),
        "half a head after a request": _connected(
            appliance, rest, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he"
        ),
        "half a preface of HTTP/2": _connected(appliance, clients, b"PRI * HT"),
        "half a first message of TLS": _plain(clients, b"\x16\x03\x01\x02\x00\x01"),
    }
    for name, sender in senders.items():
        sender.settimeout(patience(HEAD_SECONDS + 10))
        try:
            while sender.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            pytest.fail(f"{name}: still connected after {time.monotonic() - began:.0f} s")
        sender.close()


def _plain(address: str, data: bytes) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.sendall(data)
    return connection


def _connected(appliance, address: str, data: bytes) -> socket.socket:
    context = ssl.create_default_context(cadata=appliance.authority_pem().decode())
    if address == appliance.state.address:
        context.set_alpn_protocols(["h2"])
    connection = context.wrap_socket(_plain(address, b""), server_hostname="localhost")
    connection.sendall(data)
    return connection


def test_the_appliance_goes_down_while_estimates_are_thought_about(tmp_path_factory):
    data = tmp_path_factory.mktemp("down")
    with running_appliance(data) as appliance, ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(_ask, appliance, "") for _ in range(2)]
        wait_for(lambda: len(estimators(appliance)) == 2, what="two estimates")
        thinking = estimators(appliance)
        began = time.monotonic()
        assert appliance.down().returncode == 0
        assert time.monotonic() - began < patience(20)
        for each in asking:
            error = each.exception(timeout=30)
            assert error is not None or each.result().status_code == 503
        psutil.wait_procs(thinking, timeout=60)
        assert not any(process.is_running() for process in thinking)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_calls_that_a_stranger_opens_and_resets_keep_nobody_out(appliance, tokens):
    """He sends them as fast as he can; gRPC refuses all calls that wait behind a thousand.

    Last of all here: what he has used up of the allowance for wrong tokens is that of the address.
    """
    command = [sys.executable, "-m", "tests.support.rapid_reset", str(STRANGER)]
    with subprocess.Popen(
        [*command, appliance.state.address, "--tls"], stdin=PIPE, stdout=PIPE, cwd=ROOT
    ) as flood:
        assert flood.stdout.readline() == b"begun\n"
        with appliance.connect() as channel:
            management = cluster_pb2_grpc.ClusterManagementStub(channel)
            for name in ("root", "ada") * 20:
                token = (("auth-token", tokens[name]),)
                management.GetServerVersions(
                    cluster_pb2.GetServerVersionsRequest(), metadata=token, timeout=300
                )
        flood.stdin.close()
    assert flood.returncode == 0
