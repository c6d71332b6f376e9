"""The appliance where machines have IPv6 addresses: real processes on ::1."""

import socket
import ssl
from contextlib import ExitStack, suppress

import httpx
import pytest

from appliance.core.addresses import split_address
from appliance.core.clock import SystemClock
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.server import NetworkServer
from protos.cluster import cluster_pb2
from tests.support.appliance_of_fakes import NAME, words_of
from tests.support.appliance_process import FAKES, ApplianceProcess, run_command, wait_for
from tests.support.nodes import ALL_ROLES, NodeProcess, joined_nodes, write_token
from tests.support.ports import free_ports


def has_ipv6() -> bool:
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback"),
]


@pytest.fixture
def appliance(tmp_path):
    appliance = ApplianceProcess(tmp_path / "data")
    yield appliance
    appliance.down()


@pytest.mark.parametrize("written", ["::1", "[::1]"])
def test_nodes_join_and_run_a_job_by_ipv6_addresses(appliance, tmp_path, written):
    inner_port, node_port = free_ports(2)
    appliance.arguments = (
        *("--launcher", "agents", "--inner-host", written, "--tls"),
        *("--inner-port", str(inner_port), "--node-port", str(node_port), "--systems", "1"),
    )
    appliance.up()
    said = run_command("status", "--data-dir", str(appliance.data_dir)).stdout
    assert f"nodes join [::1]:{node_port}" in said
    token = write_token(appliance.data_dir)
    node = NodeProcess(
        *("six", written, ALL_ROLES),
        join=f"[::1]:{node_port}",
        token=token,
        directory=tmp_path,
        program=(NAME, *words_of(FAKES)),
    )
    with joined_nodes(node):
        job = appliance.submit_execute(1)
        answers = appliance.wait_ready(job)
        assert answers[-1].is_ready, answers
        ready = lambda: {path.stem for path in node.runtime_dir(job).glob("*.ready")}  # noqa: E731
        wait_for(lambda: "chief-0" in ready(), what="the pods are ready")
        request = cluster_pb2.CancelJobRequest(
            job_id=job, job_status=cluster_pb2.JOB_STATUS_CANCELLED
        )
        appliance.cluster.CancelJobV2(request)
        wait_for(lambda: not node.runtime_dir(job).exists(), what="the pods' end")


@pytest.mark.parametrize("host", ["::", "[::]", "::1", "[::1]"])
def test_clients_come_by_either_family(appliance, host):
    everywhere = ("--tokens", "--public-name", "localhost") if "1" not in host else ()
    appliance.arguments = ("--host", host, "--tls", *everywhere, "--systems", "1")
    appliance.up()
    state = appliance.state
    assert state.address.startswith("localhost:")
    context = ssl.create_default_context(cadata=appliance.authority_pem().decode())
    for url in (state.rest_url, f"https://{state.address}"):
        _, port = split_address(url.removeprefix("https://"))
        for address in ("[::1]", "127.0.0.1", "localhost"):
            answer = httpx.get(f"https://{address}:{port}/healthz", verify=context, timeout=120)
            assert answer.json() == {"status": "ok"}


@pytest.mark.parametrize(
    "words", [("--host", "fd00::7"), ("--host", "::", "--public-name", "[2001:db8::7]")]
)
def test_clients_are_told_no_ipv6_address(tmp_path, words):
    """The client takes what is before the first colon for a name, and pings that."""
    done = run_command("up", "--tls", "--tokens", *words, "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 2
    assert "no IPv6 address" in done.stderr
    assert "--public-name" in done.stderr


def test_of_a_name_all_addresses_are_listened_at():
    """Pods of a cluster reach management by a name, whatever family its Service has."""
    with ExitStack() as stack:
        server = NetworkServer(
            NetworkOptions(host="wsc-inner.wafer.svc", key=b"key"),
            owner="management",
            clock=SystemClock(),
        )
        stack.callback(server.close)
        host, port = split_address(server.address)
        assert host == "wsc-inner.wafer.svc"
        for address in ("127.0.0.1", "::1"):
            stack.enter_context(socket.create_connection((address, port), timeout=60))
