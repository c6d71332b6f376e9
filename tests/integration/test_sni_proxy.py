"""The one port of an appliance with TLS: gRPC, coordinators and REST behind it."""

import contextlib
import datetime as dt
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
import pytest

from appliance.core.clock import SystemClock
from appliance.core.cluster.records import CoordinatorAddress
from appliance.core.errors import ClusterError, UserError
from appliance.core.ids import AUTHORITY_SUFFIX, JobId
from appliance.management.access.certificates import (
    Certificates,
    ensure_certificates,
    find_certificates,
)
from appliance.management.front.sni_proxy import Backends, SniProxy, listen
from appliance.wire.connection_owner import Endpoint, Owner, find_owner
from appliance.wire.connections.accepted import accepted

JOB = JobId("wsjob-0123456789abcdefghijkl")
UNKNOWN_JOB = JobId("wsjob-zzzzzzzzzzzzzzzzzzzzzz")
AUTHORITY = f"{JOB}-coordinator-0-{'s' * 20}.{AUTHORITY_SUFFIX}"


def as_of_another_process(there: Endpoint, here: Endpoint) -> Owner | None:
    """Return whose a connection is, as if its other end were no socket of this process."""
    owner = find_owner(there, here)
    return None if owner is None else Owner(owner.uid, -1)


class Answering:
    """A TLS server that answers every connection with its own name and what it was told."""

    def __init__(self, name: str, files: Certificates) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(files.certificate, files.key)
        self.context.set_alpn_protocols(["h2", "http/1.1"])
        self.name = name
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError):  # a client may hang up whenever it likes
                self._answer(raw)

    def _answer(self, raw: socket.socket) -> None:
        with raw, self.context.wrap_socket(raw, server_side=True) as connection:
            told = bytearray()
            while part := connection.recv(1 << 16):
                told += part
                if told.endswith(b"."):
                    break
            connection.sendall(self.name.encode() + b" " + str(len(told)).encode())

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(120)


@pytest.fixture
def files(tmp_path: Path) -> Certificates:
    return ensure_certificates(tmp_path / "tls", "front.example.org", SystemClock())


@pytest.fixture
def port(files: Certificates) -> Iterator[int]:
    servers = {name: Answering(name, files) for name in ("management", "rest", "coordinator")}
    host, coordinator_port = servers["coordinator"].address
    listeners = listen("127.0.0.1", 0, option="--port")
    backends = Backends(
        management=lambda _: servers["management"].address,
        rest=servers["rest"].address,
        find_coordinator=lambda job: (
            CoordinatorAddress(
                address=f"{host}:{coordinator_port}", authority=AUTHORITY, owner_uid=os.getuid()
            )
            if job == JOB
            else None
        ),
    )
    front = SniProxy(listeners, backends, see=partial(accepted, find=as_of_another_process))
    front.start()
    yield listeners[0].getsockname()[1]
    front.close()
    for server in servers.values():
        server.close()


def ask(
    port: int, files: Certificates, name: str, protocols: list[str], told: bytes = b"hello."
) -> str:
    context = ssl.create_default_context(cafile=str(files.authority))
    context.set_alpn_protocols(protocols)
    raw = socket.create_connection(("127.0.0.1", port), timeout=120)
    with raw, context.wrap_socket(raw, server_hostname=name) as connection:
        connection.sendall(told)
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
        return answer.decode()


@pytest.mark.parametrize(
    ("name", "protocols", "want"),
    [
        (f"job-operator.{AUTHORITY_SUFFIX}", ["h2"], "management"),
        (AUTHORITY, ["h2"], "coordinator"),
        ("front.example.org", ["h2", "http/1.1"], "rest"),
        ("front.example.org", ["http/1.1"], "rest"),
        ("localhost", ["h2"], "management"),
    ],
)
def test_a_connection_goes_where_its_first_message_says(
    port: int, files: Certificates, name: str, protocols: list[str], want: str
) -> None:
    assert ask(port, files, name, protocols) == f"{want} 6"


def test_nothing_of_a_long_message_is_lost(port: int, files: Certificates) -> None:
    told = bytes(30_000_000).replace(b"\0", b"x") + b"."
    assert ask(port, files, f"job-operator.{AUTHORITY_SUFFIX}", ["h2"], told).split()[1] == str(
        len(told)
    )


@pytest.mark.parametrize(
    "name",
    [
        AUTHORITY.replace(JOB, UNKNOWN_JOB),
        AUTHORITY.replace("-sss", "-ttt"),  # somebody who knows the job alone, and guesses
        f"{JOB}-coordinator-0.{AUTHORITY_SUFFIX}",
        f"{JOB}-coordinator-0-.{AUTHORITY_SUFFIX}",
    ],
)
def test_whoever_does_not_know_a_jobs_authority_is_refused_without_an_alert(
    port: int, files: Certificates, name: str
) -> None:
    with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
        ask(port, files, name, ["h2"])


CALL_A_JOB = """
import sys
import grpc

port, authority, roots = sys.argv[1:]
credentials = grpc.ssl_channel_credentials(open(roots, "rb").read())
options = [("grpc.default_authority", authority)]
with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options=options) as channel:
    call = channel.unary_unary("/any.Service/Call")
    for _ in range(3):
        try:
            call(b"", timeout=120)
        except grpc.RpcError as error:
            print(error.code().name)
"""


def test_a_grpc_client_of_a_cancelled_job_prints_nothing_while_it_calls(
    port: int, files: Certificates
) -> None:
    # The real client calls on for a while, and its terminal would show every alert.
    gone = AUTHORITY.replace(JOB, UNKNOWN_JOB)
    done = subprocess.run(
        (sys.executable, "-c", CALL_A_JOB, str(port), gone, str(files.authority)),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.split() == ["UNAVAILABLE"] * 3
    assert done.stderr == ""


def test_plain_text_is_answered_in_a_sentence(port: int) -> None:
    # The client asks with curl whether anybody is there, before it talks TLS.
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: front\r\n\r\n")
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b"This port speaks TLS.\n")


def test_a_grpc_client_that_calls_by_an_authority_names_it_in_tls(files: Certificates) -> None:
    seen: list[str] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    context.sni_callback = lambda _socket, name, _context: seen.append(name)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        authority = AUTHORITY
        channel = grpc.secure_channel(
            f"127.0.0.1:{listener.getsockname()[1]}",
            grpc.ssl_channel_credentials(files.authority.read_bytes()),
            options=[("grpc.default_authority", authority)],
        )
        with channel:
            # Not `channel_ready_future`, whose thread ends in an error when its channel is closed.
            call = channel.unary_unary("/any.Service/Call").future(b"", wait_for_ready=True)
            raw, _ = listener.accept()
            with raw:
                raw.settimeout(120)
                # gRPC may hang up before or after, since nobody speaks HTTP/2 behind this.
                with contextlib.suppress(OSError), context.wrap_socket(raw, server_side=True):
                    pass
            call.cancel()
    assert seen == [authority]


def test_a_port_that_is_taken_is_named() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ClusterError, match=f"Port {taken.getsockname()[1]} at 127.0.0.1"),
    ):
        listen("127.0.0.1", taken.getsockname()[1], option="--port")


def secret(files: Certificates, directory: Path) -> Path:
    directory.mkdir()
    (directory / "ca.crt").write_bytes(files.authority.read_bytes())
    (directory / "tls.crt").write_bytes(files.certificate.read_bytes())
    (directory / "tls.key").write_bytes(files.key.read_bytes())
    return directory


class Later(SystemClock):
    def now(self) -> dt.datetime:
        return super().now() + dt.timedelta(days=3650)


def test_certificates_of_somebody_else_must_be_for_the_names_that_clients_use(
    files: Certificates, tmp_path: Path
) -> None:
    directory = secret(files, tmp_path / "secret")
    found = find_certificates(directory, "front.example.org", SystemClock())
    assert found.key == directory / "tls.key"
    with pytest.raises(UserError, match=r"is not for other\.example\.org"):
        find_certificates(directory, "other.example.org", SystemClock())
    with pytest.raises(UserError, match="has run out"):
        find_certificates(directory, "front.example.org", Later())
    (directory / "ca.crt").unlink()
    with pytest.raises(UserError, match=r"ca\.crt"):
        find_certificates(directory, "front.example.org", SystemClock())
