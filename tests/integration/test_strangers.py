"""Other users of the machine, and callers without a token, get nowhere near somebody's job."""

import json
import os
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import grpc
import psutil
import pytest

from appliance.core.ids import AUTHORITY_SUFFIX
from protos.appliance import appliance_service_pb2 as appliance_pb
from protos.appliance import appliance_service_pb2_grpc, ws_common_pb2
from protos.cluster import cluster_pb2 as pb
from protos.cluster import cluster_pb2_grpc
from tests.support.appliance import ROOT
from tests.support.appliance_process import REAL_COORDINATOR, running_appliance, wait_for
from tests.support.processes import directory_of, name_of
from tests.support.rest import mint

SECONDS = 120
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
PING = ws_common_pb2.PingRequest()


def stranger(appliance, job: str, ingress, uid: int) -> dict:
    """Return what became of what a user of the machine tried, beside an open connection of ours."""
    rest = urlsplit(appliance.state.rest_url)
    with socket.create_connection((rest.hostname, rest.port)) as own:
        return tried(appliance, job, ingress, uid, own.getsockname())


def tried(appliance, job: str, ingress, uid: int, own: tuple[str, int]) -> dict:
    plan = {
        "roots": f"{own[0]}:{own[1]}",
        "rest": [f"{appliance.state.rest_url}/api/v1/{path}" for path in ("jobs", "me")],
        "management": appliance.state.address,
        "coordinator": [ingress.service_url, ingress.service_authority],
        "job": job,
    }
    command = [sys.executable, "-m", "tests.support.stranger", str(uid), json.dumps(plan)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict = json.loads(done.stdout)
    return answer


@needs_root
def test_without_tokens_an_appliance_of_root_serves_root_alone(tmp_path):
    with running_appliance(tmp_path / "data", coordinator=REAL_COORDINATOR) as appliance:
        assert "runs as root and asks for no tokens. It serves root alone" in appliance.warnings
        job = appliance.submit_compile()
        ingress = appliance.wait_ready(job)[-1]
        got = stranger(appliance, job, ingress, NOBODY)
        assert got.pop("rest") == [403, 403]
        assert got.pop("forged") == [403, 403, 403]
        assert got.pop("UnaryPing") == "UNAVAILABLE"  # cut before it was a call
        assert set(got.values()) == {"PERMISSION_DENIED"}, got
        assert appliance.status(job).status == pb.JOB_STATUS_IN_PROGRESS
        own = stranger(appliance, job, ingress, 0)
        assert own.pop("rest") == [200, 200]
        assert own.pop("forged") == [200, 200, 200]
        assert set(own.values()) == {"OK"}, own
        check_other_addresses(appliance, ingress)
        check_flood_of_coordinator(ingress)
        check_port_after_death(appliance, job, ingress)


LISTEN = """
import os, socket, sys
os.setgid({uid}); os.setuid({uid})
for port in sys.argv[1:]:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"),
                         (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        own = socket.socket(family)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            own.bind((host, int(port)))
            own.listen()
            print(host, port)
        except OSError as error:
            pass
"""


def check_other_addresses(appliance, ingress) -> None:
    """A stranger listens at no address that `localhost` stands for at a port that clients call."""
    urls = (f"//{appliance.state.address}", appliance.state.rest_url, f"//{ingress.service_url}")
    parts = [urlsplit(url) for url in urls]
    assert {part.hostname for part in parts} == {"localhost"}
    assert listened(*(part.port for part in parts)) == ""


def listened(*ports: int | None) -> str:
    """Return where a stranger can listen, of some ports."""
    command = [sys.executable, "-c", LISTEN.format(uid=NOBODY), *map(str, ports)]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout


def check_port_after_death(appliance, job: str, ingress) -> None:
    """A stranger cannot take the port of a coordinator that has been killed."""
    (coordinator,) = [
        process
        for process in psutil.process_iter()
        if name_of(process) == "wsc-coordinator" and job in directory_of(process)
    ]
    coordinator.kill()
    wait_for(lambda: appliance.status(job).status == pb.JOB_STATUS_FAILED)
    assert listened(urlsplit(f"//{ingress.service_url}").port) == ""


def check_flood_of_coordinator(ingress) -> None:
    """A stranger opens and resets calls at the job's port, and its client is answered all the same.

    gRPC refuses all calls that wait behind a thousand.
    """
    flood = [sys.executable, "-m", "tests.support.rapid_reset", str(NOBODY), ingress.service_url]
    options = [("grpc.default_authority", ingress.service_authority)]
    with (
        subprocess.Popen(
            flood, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        ) as stranger_,
        grpc.insecure_channel(ingress.service_url, options) as channel,
    ):
        assert stranger_.stdout is not None
        assert stranger_.stdin is not None
        assert stranger_.stdout.readline() == b"begun\n"
        client = appliance_service_pb2_grpc.ApplianceStub(channel)
        for _ in range(40):
            client.UnaryPing(PING, timeout=SECONDS)
        stranger_.stdin.close()


@needs_root
def test_every_user_of_the_machine_may_be_served_as_who_the_kernel_says(tmp_path):
    with running_appliance(
        tmp_path / "data", "--local-users", coordinator=REAL_COORDINATOR
    ) as appliance:
        job = appliance.submit_compile()  # root submits it for uid 1000
        ingress = appliance.wait_ready(job)[-1]
        got = stranger(appliance, job, ingress, NOBODY)
        assert got.pop("rest") == [200, 200]
        assert got.pop("forged") == [200, 200, 200]  # as himself
        assert appliance.status(job).status == pb.JOB_STATUS_IN_PROGRESS
        assert got.pop("GetJob") == "OK"
        assert got.pop("GetJob as root") == "UNAUTHENTICATED"
        assert got.pop("UnaryPing") == "UNAVAILABLE"
        assert set(got.values()) == {"PERMISSION_DENIED"}, got


def test_a_coordinator_answers_nobody_who_does_not_know_its_authority(tmp_path):
    with running_appliance(tmp_path / "data", coordinator=REAL_COORDINATOR) as appliance:
        job = appliance.submit_compile()
        ingress = appliance.wait_ready(job)[-1]
        guesses = (
            "",
            "localhost",
            f"{job}-coordinator-0.{AUTHORITY_SUFFIX}",
            f"{job}-coordinator-0-{'a' * 20}.{AUTHORITY_SUFFIX}",
        )
        methods = ("UnaryPing", "UnaryStart", "UnaryCompile", "UnaryRun", "UnarySendDeferredInput")
        service = appliance_pb.DESCRIPTOR.services_by_name["Appliance"].full_name
        for guess in guesses:
            options = [("grpc.default_authority", guess)] if guess else []
            with grpc.insecure_channel(ingress.service_url, options) as channel:
                for method in methods:
                    call = channel.unary_unary(f"/{service}/{method}", _registered_method=False)
                    with pytest.raises(grpc.RpcError) as refused:
                        call(b"", timeout=SECONDS)
                    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED, method
        assert appliance.status(job).status == pb.JOB_STATUS_IN_PROGRESS
        options = [("grpc.default_authority", ingress.service_authority)]
        with grpc.insecure_channel(ingress.service_url, options) as channel:
            appliance_service_pb2_grpc.ApplianceStub(channel).UnaryPing(PING, timeout=SECONDS)


class Person:
    """A user with a token, on a connection of their own."""

    def __init__(self, appliance, token: str) -> None:
        self.appliance = appliance
        self.channel = self.connect()
        self.stub = cluster_pb2_grpc.ClusterManagementStub(self.channel)
        self.metadata = (("auth-token", token),)

    def connect(self, authority: str = "") -> grpc.Channel:
        return self.appliance.connect(authority, use_local_subchannel_pool=1)

    def poll(self, job: str, *, seconds: float = SECONDS) -> grpc.Call:
        return self.stub.PollIngressV2(pb.GetIngressRequest(job_id=job), timeout=seconds)

    def ask(self, job: str) -> None:
        """Make an ordinary call, which says who it is of."""
        request = pb.GetJobEventsRequest(job_id=job)
        self.stub.GetJobEvents(request, metadata=self.metadata, timeout=SECONDS)


def test_with_tokens_only_the_owners_connection_is_told_the_authority(tmp_path):
    arguments = ("--tls", "--tokens")
    with running_appliance(
        tmp_path / "data", *arguments, coordinator=REAL_COORDINATOR
    ) as appliance:
        ada, bob = (
            Person(appliance, mint(appliance, name, "--uid", str(uid)))
            for name, uid in (("ada", 1000), ("bob", 1001))
        )
        nobody = Person(appliance, "")
        request = pb.CompileJobRequest(compile_dir_relative_path="cached_compile")
        job = ada.stub.InitCompileJob(request, metadata=ada.metadata, timeout=SECONDS).job_id
        record = ada.stub.GetJob(pb.GetJobRequest(job_id=job), metadata=ada.metadata)
        assert record.uid == 1000  # of the token, though the call itself names no user
        told = []
        for message in ada.poll(job):
            told.append(message)
            if message.is_scheduled:
                ada.ask(job)  # as the client does
        assert told[-1].is_ready
        authority = told[-1].service_authority
        assert [each for each in told[:-1] if each.service_authority] == []

        bob.ask(job)
        with pytest.raises(grpc.RpcError) as refused:
            list(bob.poll(job))
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        heard = []
        with pytest.raises(grpc.RpcError) as refused:
            heard.extend(nobody.poll(job, seconds=3))
        assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert [each for each in heard if each.service_authority or each.is_ready] == []

        with nobody.connect(f"{job}-coordinator-0.{AUTHORITY_SUFFIX}") as channel:
            stub = appliance_service_pb2_grpc.ApplianceStub(channel)
            with pytest.raises(grpc.RpcError) as refused:
                stub.UnaryPing(PING, timeout=SECONDS)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        with ada.connect(authority) as channel:
            appliance_service_pb2_grpc.ApplianceStub(channel).UnaryPing(PING, timeout=SECONDS)
        for person in (ada, bob, nobody):
            person.channel.close()
