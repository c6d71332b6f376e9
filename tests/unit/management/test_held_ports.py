"""The port of a coordinator that has ended is kept from others for a while."""

import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import JobRecord, User
from appliance.core.errors import UserError
from appliance.core.ids import JobId, WorkflowId
from appliance.management.pods.held_ports import KEPT_SECONDS, NUM_KEPT, HeldPorts
from appliance.wire.connections.client_ports import bind_for_clients
from tests.support.clock import FakeClock

NOBODY = 65534
LISTEN = """
import os, socket
if os.geteuid() == 0:
    os.setgid({uid}); os.setuid({uid})
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for is_shared in (False, True) if os.geteuid() == {uid} else (False,):
        own = socket.socket(family)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, is_shared)
        try:
            own.bind((host, {port}))
            own.listen()
            print(host)
        except OSError:
            pass
        own.close()
"""


def stranger(port: int) -> list[str]:
    """Return where somebody else can listen; without root that is ourselves, who does not share."""
    command = [sys.executable, "-c", LISTEN.format(uid=NOBODY, port=port)]
    return sorted(set(subprocess.check_output(command, cwd="/", text=True).split()))


class Coordinator:
    """Listens as a coordinator's front does."""

    def __init__(self) -> None:
        self.sockets = bind_for_clients("127.0.0.1", 0, is_shared=True)
        for each in self.sockets:
            each.listen()
        self.port = self.sockets[0].getsockname()[1]
        self.hosts = sorted(each.getsockname()[0] for each in self.sockets)

    def job(self, name: str = "wsjob-a", *, uid: int = 1000) -> JobRecord:
        """Return the job that it is of."""
        return replace(JOB, id=JobId(name), user=User(uid=uid), service_address=self.address)

    @property
    def address(self) -> str:
        """As it is registered."""
        return f"localhost:{self.port}"

    def end(self) -> None:
        """Let the kernel close what it has, as at its end."""
        for each in self.sockets:
            each.close()


JOB = JobRecord(
    id=JobId("wsjob-a"),
    type=JobType.EXECUTE,
    session="job-operator",
    workflow=WorkflowId("wflow-1"),
    user=User(uid=1000),
    num_systems=1,
    sequence=1,
    phase=Phase.RUNNING,
    message="",
    systems=("systemf0",),
    service_address="",
    artifact_dir="",
    created_at=FakeClock().now(),
    started_at=FakeClock().now(),
    ended_at=None,
)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def ports(clock):
    ports = HeldPorts(clock, is_needed=True)
    yield ports
    ports.close()


@pytest.fixture
def coordinator():
    coordinator = Coordinator()
    yield coordinator
    coordinator.end()


def test_nobody_listens_where_a_coordinator_has_ended(ports, clock, coordinator):
    ports.hold(coordinator.job())
    socket.create_connection(("127.0.0.1", coordinator.port)).close()  # it gets the connections
    coordinator.end()
    assert stranger(coordinator.port) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", coordinator.port))
    ports.job_ended(JOB.id)
    clock.advance(KEPT_SECONDS - 1)
    ports.job_ended(JobId("wsjob-another"))
    assert stranger(coordinator.port) == []
    clock.advance(1)
    ports.job_ended(JobId("wsjob-another"))
    assert stranger(coordinator.port) == coordinator.hosts


def test_without_it_a_stranger_could(coordinator):
    coordinator.end()
    assert stranger(coordinator.port) == coordinator.hosts


def test_a_management_that_starts_holds_what_an_earlier_one_has_left(clock, coordinator):
    ports = HeldPorts(clock, is_needed=True)
    ports.recall([coordinator.job()])
    coordinator.end()
    assert stranger(coordinator.port) == []
    ports.close()
    assert stranger(coordinator.port) == coordinator.hosts


def test_ones_many_short_jobs_end_no_keeping_of_anothers(ports, coordinator):
    ports.hold(coordinator.job())
    ports.job_ended(JOB.id)
    others = [Coordinator() for _ in range(NUM_KEPT + 1)]
    for number, other in enumerate(others):
        ports.hold(other.job(f"wsjob-{number}", uid=1001))
        ports.job_ended(JobId(f"wsjob-{number}"))
        other.end()
    coordinator.end()
    assert stranger(coordinator.port) == []
    assert stranger(others[0].port) == others[0].hosts
    assert stranger(others[1].port) == []


def test_a_job_that_is_started_again_has_another_port_and_both_are_kept(ports, coordinator):
    ports.hold(coordinator.job())
    again = Coordinator()
    ports.hold(again.job())
    for each in (coordinator, again):
        each.end()
        assert stranger(each.port) == []


@pytest.mark.parametrize("address", ["", "node7:4000", "127.0.0.1:4000"])
def test_a_coordinator_of_another_node_or_behind_tls_has_no_port_of_ours(ports, address):
    ports.hold(replace(JOB, service_address=address))
    ports.job_ended(JOB.id)


def test_with_tls_nothing_is_held(clock, coordinator):
    ports = HeldPorts(clock, is_needed=False)
    ports.hold(coordinator.job())
    coordinator.end()
    assert stranger(coordinator.port) == coordinator.hosts


def test_a_port_that_is_not_shared_is_left(ports, caplog):
    with socket.create_server(("127.0.0.1", 0)) as own:
        ports.hold(replace(JOB, service_address=f"localhost:{own.getsockname()[1]}"))
    assert "is not held" in caplog.text


@pytest.mark.parametrize("host", ["203.0.113.7", "[2001:db8::7]", "far.example"])
def test_without_tls_no_client_is_sent_to_another_machine(host) -> None:
    with pytest.raises(UserError, match="plain text"):
        HeldPorts(FakeClock(), is_needed=True).check_safe(f"{host}:9000")
    HeldPorts(FakeClock(), is_needed=False).check_safe(f"{host}:9000")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "[::1]"])
def test_without_tls_clients_are_sent_to_this_machine(host) -> None:
    HeldPorts(FakeClock(), is_needed=True).check_safe(f"{host}:9000")
