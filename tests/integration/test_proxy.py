"""What clients connect to, in a process of its own: it ends after the jobs that it serves."""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import Phase
from appliance.core.ids import AUTHORITY_SUFFIX, JobId
from appliance.management.access.certificates import Certificates, ensure_certificates
from appliance.management.front.proxy_preface import TrustedProxies, write_preface
from appliance.management.front.sni_proxy import Backends, SniProxy, listen
from appliance.start import app
from appliance.storage.engine.database import Database
from appliance.storage.queue.jobs import JobRepository
from appliance.storage.users.proxy_key import ensure_proxy_key
from appliance.wire.connections.accepted import Accepted, AcceptedConnections
from tests.support.appliance import ROOT
from tests.support.management import move, new_job
from tests.support.ports import free_port
from tests.support.waiting import wait_until

SECONDS = 120.0
JOB = "wsjob-0123456789abcdefghijkl"
BYE = b"bye"
"""What a server ends a connection at."""
COORDINATOR = f"{JOB}-coordinator-0-{'s' * 20}"


class Echo:
    """A TLS server that gives back what it is sent, after its own name.

    Args:
        name: Said first on every connection.
        files: What it proves itself with.
    """

    def __init__(
        self, name: str, files: Certificates, listener: socket.socket | None = None
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(files.certificate, files.key)
        self.context.set_alpn_protocols(["h2", "http/1.1"])
        self.name = name
        self.listener = listener or socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self.listener.getsockname())
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(SECONDS)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(raw,), daemon=True).start()

    def says(self, raw: socket.socket) -> str:
        """Return what is said first at a connection."""
        return self.name

    def _serve(self, raw: socket.socket) -> None:
        says = self.says(raw)
        with contextlib.suppress(OSError), self.context.wrap_socket(raw, server_side=True) as it:
            it.sendall(says.encode())
            while (part := it.recv(1 << 16)) and part != BYE:
                it.sendall(part)


class Management(Echo):
    """Management behind its own front, as with `up --tls`: it says whose a connection is.

    Args:
        files: What it proves itself with.
        directory: For its socket.
        database: Has the key of proxies.
    """

    def __init__(self, files: Certificates, directory: Path, database: Database) -> None:
        inner = socket.socket(socket.AF_UNIX)
        inner.bind(str(directory / "clients.sock"))
        inner.listen()
        self.connections = AcceptedConnections()
        super().__init__("", files, inner)
        path = str(directory / "clients.sock")
        backends = Backends(management=lambda _: path, rest=path, find_coordinator=lambda _: None)
        outer = listen("127.0.0.1", 0, option="--port")
        self.address = "{}:{}".format(*outer[0].getsockname())
        proxies = TrustedProxies(key=ensure_proxy_key(database))
        self.front = SniProxy(outer, backends, self.connections, proxies=proxies)
        self.front.start()

    def says(self, raw: socket.socket) -> str:
        return repr(self.connections.of_socket(raw))

    def close(self) -> None:
        self.front.close()
        super().close()


class Cluster:
    """A management, a coordinator whose job is in a database, and a proxy in front of them."""

    def __init__(self, directory: Path, *options: str, has_front: bool = False) -> None:
        self.files = ensure_certificates(directory / "tls", "front.example.org", SystemClock())
        self.database = Database.open_sqlite(directory / "state.db")
        self.management = (
            Management(self.files, directory, self.database)
            if has_front
            else Echo("management", self.files)
        )
        self.coordinator = Echo("coordinator", self.files)
        self.jobs = JobRepository(self.database, SystemClock())
        self.ports = [free_port(), free_port()]
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "appliance.start", "proxy", "--host", "127.0.0.1"),
                *("--management", self.management.address, "--database", self.database.url),
                *(word for port in self.ports for word in ("--port", str(port))),
                *options,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        wait_until(lambda: all(map(is_open, self.ports)), seconds=SECONDS, what="an open port")

    def add_job(self) -> JobId:
        """Keep a job whose coordinator is there."""
        job = self.jobs.create(
            new_job(JOB, service_authority=f"{COORDINATOR}.{AUTHORITY_SUFFIX}")
        ).id
        self.jobs.set_service_address(self.jobs.load(job), self.coordinator.address)
        return job

    def connect(
        self, name: str, *, port: int | None = None, own: str = "127.0.0.1"
    ) -> ssl.SSLSocket:
        """Connect by a name, from an address of this machine."""
        context = ssl.create_default_context(cafile=str(self.files.authority))
        context.set_alpn_protocols(["h2"])
        place = ("127.0.0.1", port or self.ports[0])
        raw = socket.create_connection(place, timeout=SECONDS, source_address=(own, 0))
        return context.wrap_socket(raw, server_hostname=f"{name}.{AUTHORITY_SUFFIX}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)
        self.management.close()
        self.coordinator.close()
        self.database.close()


def is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def said(connection: ssl.SSLSocket, wanted: bytes) -> bool:
    got = b""
    while len(got) < len(wanted) and (part := connection.recv(1 << 16)):
        got += part
    return got == wanted


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(*options: str, has_front: bool = False) -> Cluster:
        made.append(Cluster(tmp_path, *options, has_front=has_front))
        return made[0]

    yield make
    for cluster in made:
        cluster.close()


def test_a_job_is_reached_while_it_lasts_and_everything_else_is_managements(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster()
    for port in cluster.ports:
        with cluster.connect("job-operator", port=port) as connection:
            assert said(connection, b"management")
    with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
        cluster.connect(COORDINATOR)
    job = cluster.add_job()
    with cluster.connect(COORDINATOR) as connection:
        assert said(connection, b"coordinator")
    move(cluster.jobs, job, Phase.QUEUED, Phase.CANCELLED, message="enough")
    with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
        cluster.connect(COORDINATOR)


@pytest.mark.parametrize("own", ["127.0.0.1", "127.0.0.2"])
def test_management_knows_from_where_a_client_comes_and_takes_it_for_nobody(
    make_cluster: Callable[..., Cluster], own: str
) -> None:
    # The proxy runs as the user that management serves; whoever comes through it is not that user.
    cluster = make_cluster(has_front=True)
    with cluster.connect("job-operator", own=own) as connection:
        assert said(connection, repr(Accepted(host=own, is_local=False)).encode())


def test_a_proxy_of_a_management_of_before_passes_clients_on_as_they_are(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster()
    with cluster.database.transaction() as session:
        session.execute(text("DROP TABLE proxy_keys"))
    with cluster.connect("job-operator") as connection:
        assert said(connection, b"management")


def test_a_preface_without_the_key_reaches_nobody(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(has_front=True)
    host, _, port = cluster.management.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as raw:
        raw.sendall(write_preface("127.0.0.2", bytes(32), b"guessed"))
        context = ssl.create_default_context(cafile=str(cluster.files.authority))
        with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
            context.wrap_socket(raw, server_hostname=f"job-operator.{AUTHORITY_SUFFIX}")


def test_one_that_is_to_end_waits_for_the_clients_of_jobs_and_takes_no_others(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("--drain-seconds", "600")
    cluster.add_job()
    management = cluster.connect("job-operator")
    with cluster.connect(COORDINATOR) as connection, management:
        assert said(connection, b"coordinator")
        assert said(management, b"management")
        cluster.process.send_signal(signal.SIGTERM)
        wait_until(
            lambda: not any(map(is_open, cluster.ports)), seconds=SECONDS, what="closed ports"
        )
        for stream in (connection, management):
            stream.sendall(b"and on")
            assert said(stream, b"and on")
        connection.close()
        assert cluster.process.wait(SECONDS) == 0
        with contextlib.suppress(OSError):  # cut, since no job needs it
            assert management.recv(1) == b""


def test_a_client_that_does_not_hang_up_when_its_job_ends_holds_nobody_up(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("--drain-seconds", "600")
    cluster.add_job()
    with cluster.connect(COORDINATOR) as connection:
        assert said(connection, b"coordinator")
        connection.sendall(BYE)
        cluster.process.send_signal(signal.SIGTERM)
        assert cluster.process.wait(SECONDS) == 0


def test_clients_of_jobs_are_cut_when_the_time_for_them_is_over(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster()
    cluster.add_job()
    with cluster.connect(COORDINATOR) as connection:
        assert said(connection, b"coordinator")
        cluster.process.send_signal(signal.SIGTERM)
        assert cluster.process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--management", "head"), "'head' is no host:port of management."),
        (("--management", "head:9000"), "No database is given to find coordinators in."),
        (("--management", "head:9000", "--database", "x"), "URL is not understood"),
    ],
)
def test_a_proxy_that_cannot_be_says_why(options: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(app, ["proxy", *options], env={"WSC_DATABASE": ""})
    assert done.exit_code != 0
    assert message in done.output
