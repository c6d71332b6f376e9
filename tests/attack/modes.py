"""The ways an appliance is started, and what is tried on each."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from protos.appliance.common_config_pb2 import JobMode
from protos.cluster import cluster_pb2 as pb
from protos.cluster import cluster_pb2_grpc
from tests.attack.attacker import ROOT_CAN
from tests.attack.targets import Target, files_below
from tests.support.appliance import ROOT
from tests.support.appliance_process import (
    REAL_COORDINATOR,
    USER,
    ApplianceProcess,
    processes_of,
    running_appliance,
)
from tests.support.ports import free_port
from tests.support.rest import mint
from tests.support.waiting import wait_until

NOBODY, OTHER = 65534, 61234
SECONDS = 120
UIDS = (NOBODY, OTHER)
"""Two users of the machine who are not root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way to start an appliance.

    Attributes:
        name: How it is called.
        arguments: Of `appliance up`.
        serves_users: Whether the machine's users are served, as themselves.
        has_tokens: Whether a caller needs a token.
        has_proxy: Whether attackers come through an `appliance proxy` of root's.
    """

    name: str
    arguments: tuple[str, ...] = ()
    serves_users: bool = False
    has_tokens: bool = False
    has_proxy: bool = False


MODES = (
    Mode(name="default"),
    Mode(name="--local-users", arguments=("--local-users",), serves_users=True),
    Mode(name="--tls", arguments=("--tls",)),
    Mode(name="--tls --local-users", arguments=("--tls", "--local-users"), serves_users=True),
    Mode(name="--tls --tokens", arguments=("--tls", "--tokens"), has_tokens=True),
    Mode(name="--tls behind a proxy", arguments=("--tls",), has_proxy=True),
    Mode(
        name="--tls --tokens behind a proxy",
        arguments=("--tls", "--tokens"),
        has_tokens=True,
        has_proxy=True,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an attack.

    Attributes:
        mode: Where.
        who: Who tried.
        attack: What.
        how: How it succeeded; empty if it did not.
    """

    mode: str
    who: str
    attack: str
    how: str


def attack(mode: Mode, directory: Path) -> Iterator[Outcome]:
    """Start an appliance in a mode and yield what became of each attack on it."""
    arguments = (*mode.arguments, "--systems", "1")
    with (
        running_appliance(
            directory / "data", *arguments, coordinator=REAL_COORDINATOR, is_forked=False
        ) as appliance,
        _held(appliance) as port,
    ):
        target = _target(appliance, mode, port)
        with _proxy(appliance, target) if mode.has_proxy else nullcontext(target) as reached:
            for who, uid, each in _attackers(appliance, mode, reached):
                for name, how in tried(uid, "others" if uid else "served", each).items():
                    yield Outcome(mode=mode.name, who=who, attack=name.replace("_", " "), how=how)
            if mode.has_tokens or not mode.has_proxy:  # else whoever comes through it is nobody
                yield from _controls(appliance, mode, reached)


@contextmanager
def _proxy(appliance: ApplianceProcess, target: Target) -> Iterator[Target]:
    """Start a proxy as whoever runs this; yield the appliance as it is found behind it."""
    port, database = free_port(), f"sqlite:///{appliance.data_dir / 'state.db'}"
    words = ("--management", target.management, "--database", database, "--port", str(port))
    process = subprocess.Popen([sys.executable, "-m", "appliance.start", "proxy", *words], cwd=ROOT)
    try:
        wait_until(lambda: _is_open(port), seconds=SECONDS, what="the proxy's port")
        yield replace(
            target,
            management=f"localhost:{port}",
            rest=f"https://localhost:{port}",
            coordinator=(f"localhost:{port}", target.coordinator[1]),
        )
    finally:
        process.terminate()
        process.wait(SECONDS)


def _is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def _controls(appliance: ApplianceProcess, mode: Mode, target: Target) -> Iterator[Outcome]:
    """Try the same as root, who may: an attack that nobody can make shows nothing."""
    token = mint(appliance, "root", "--uid", "0", "--gid", "0") if mode.has_tokens else ""
    made = tried(0, "others", replace(target, token=token))
    for name in ROOT_CAN:
        how = "" if made.get(name) else "root could not do it either: the attack is not made"
        yield Outcome(mode=mode.name, who="control", attack=name.replace("_", " "), how=how)


@contextmanager
def _held(appliance: ApplianceProcess) -> Iterator[int]:
    """Hold a connection of root's to REST open, as a dashboard does; yield its port."""
    place = urlsplit(appliance.state.rest_url)
    with socket.create_connection((place.hostname, place.port)) as connection:
        yield connection.getsockname()[1]


def _target(appliance: ApplianceProcess, mode: Mode, port: int) -> Target:
    metadata: tuple[tuple[str, str], ...] = ()
    told = appliance.told_cluster()
    pem = appliance.authority_pem().decode()
    if mode.has_tokens:
        metadata = (("auth-token", mint(appliance, "root", "--uid", "0", "--gid", "0")),)
    job, ingress = _submit(appliance, metadata)
    state = appliance.state
    processes = {state.pid, *(each.pid for each in processes_of(job))}
    processes |= {each.pid for each in psutil.Process(state.pid).children(recursive=True)}
    name = f"{told['namespaces'][0]['name']}.{told['authority']}" if pem else ""
    return Target(
        rest=state.rest_url,
        management=told["server"],
        authority=name,
        pem=pem,
        job=job,
        coordinator=ingress,
        held_port=port,
        paths=tuple(files_below(str(appliance.data_dir), str(state.runtime_root))),
        processes=tuple(sorted(processes)),
        secrets=(ingress[1].split(".")[0], *(value for _, value in metadata)),
    )


def _submit(
    appliance: ApplianceProcess, metadata: tuple[tuple[str, str], ...]
) -> tuple[str, tuple[str, str]]:
    """Submit a job of another user; return it, and the address and authority of its coordinator."""
    request = pb.CompileJobRequest(
        job_mode=JobMode(job=JobMode.COMPILE), compile_dir_relative_path="cached_compile"
    )
    with appliance.connect() as channel:
        stub = cluster_pb2_grpc.ClusterManagementStub(channel)
        job = stub.InitCompileJob(request, metadata=metadata or USER, timeout=SECONDS).job_id
        last = pb.GetIngressResponse()
        for last in stub.PollIngressV2(pb.GetIngressRequest(job_id=job), timeout=300):
            if last.is_scheduled and metadata:  # this call proves whose the stream is
                asked = pb.GetJobRequest(job_id=job)
                stub.GetJob(asked, metadata=metadata, timeout=SECONDS)
    assert last.service_authority, f"nobody told the owner of {job} where its coordinator is"
    return job, (last.service_url, last.service_authority)


def _attackers(
    appliance: ApplianceProcess, mode: Mode, target: Target
) -> Iterator[tuple[str, int, Target]]:
    """Yield who attacks: a name, a user id, and the appliance as that user finds it."""
    token = mint(appliance, "root", "--uid", "0", "--gid", "0") if mode.has_tokens else ""
    if token and not mode.has_proxy:  # which says of nobody behind it who they are here
        target = replace(target, login=_logged_in(target, token))
    yield "a page in root's browser", 0, replace(target, token=token)
    for uid in UIDS if os.geteuid() == 0 else ():
        name = _name_of(uid) if mode.serves_users else ""
        yield f"uid {uid}", uid, replace(target, name=name)
    if mode.has_tokens and os.geteuid() == 0:
        mallory = mint(appliance, "mallory", "--uid", str(OTHER), "--gid", str(OTHER))
        yield "a user with a token", OTHER, replace(target, token=mallory, name="mallory")


def _logged_in(target: Target, token: str) -> str:
    """Log a browser of ours in; return its cookie."""
    host = urlsplit(target.rest).netloc
    with closing(HTTPSConnection(host, timeout=SECONDS, context=target.context())) as browser:
        body = json.dumps({"token": token})
        browser.request("POST", "/api/v1/login", body, {"Content-Type": "application/json"})
        cookie = browser.getresponse().headers["Set-Cookie"].partition(";")[0]
    status, _ = target.request("GET", "/api/v1/me", headers={"Cookie": cookie})
    assert status == 200, "a browser's own login does not count"
    return cookie


def _name_of(uid: int) -> str:
    words = subprocess.run(["id", "-nu", str(uid)], capture_output=True, text=True, check=False)
    return words.stdout.strip() or str(uid)


def tried(uid: int, probes: str, target: Target) -> dict[str, str]:
    """Return how each attack of a user succeeded, by name; empty where it did not."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.attack.attacker", str(uid), probes],
        input=target.encode(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"the attacker's process": f"ended with {done.returncode}: {done.stderr[-400:]}"}
    answer: dict[str, str] = json.loads(done.stdout)
    return answer
