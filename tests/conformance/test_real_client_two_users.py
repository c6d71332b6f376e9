"""An appliance that root runs for users who do not trust each other: both train, neither sees more.

Users, their processes and the client are real. While both jobs run, each user tries to read, write,
call and signal everything of the other's job and of the appliance.
"""

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.appliance import ROOT
from tests.support.client import PROGRAMS, ClientRun, client_venv, losses
from tests.support.processes import directory_of, owner_of
from tests.support.two_users import Person, SharedAppliance, made_user, open_to_all
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.client,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as other users"),
    pytest.mark.skipif(shutil.which("useradd") is None, reason="there is no useradd here"),
]

SPY = Path(__file__).parents[1] / "support" / "spy.py"
STEPS = 20
TRAINING = ("--model", "mlp_sgd", "--steps", str(STEPS), "--loader", "slow")


@dataclass
class Place:
    """A running appliance and what users need of it.

    Attributes:
        appliance: It.
        folder: A directory that everybody may enter, with the programs and the config.
        users: Two users.
    """

    appliance: SharedAppliance
    folder: Path
    users: tuple[Person, Person]

    def variables(self, user: Person) -> dict[str, str]:
        """Return what a user needs to call the appliance: its address and a token."""
        account = (user.name, "--uid", str(user.uid), "--gid", str(user.gid))
        token = self.appliance.command("token", "create", *account, program="appliance").strip()
        return {"CSCONFIG_PATH": str(self.folder / "config_v2"), "CSAUTH_TOKEN": token}

    def csctl(self, user: Person, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run csctl as a user."""
        command = user.command(
            *(sys.executable, "-m", "csctl", *arguments),
            PYTHONPATH=str(ROOT),
            **self.variables(user),
        )
        return subprocess.run(
            [*self.appliance.enter, *command], capture_output=True, text=True, check=False
        )

    def submit(self, user: Person, *command: str) -> str:
        """Submit a detached run from a user's home; return its job."""
        submitted = self.csctl(user, "submit", "--", *command)
        assert submitted.returncode == 0, submitted.stderr
        found = re.search(r"wsjob-\w{22}", submitted.stdout)
        assert found, submitted.stdout
        return found[0]

    def authority(self) -> str:
        """Return the certificate authority that the config file tells, as PEM."""
        (cluster,) = json.loads(self.appliance.config_path.read_text())["clusters"]
        return base64.b64decode(cluster["namespaces"][0]["certificateAuthorityData"]).decode()

    def submit_in(self, user: Person, directory: Path, argv: list[str]) -> str:
        """Submit a detached run in any directory; return its job."""
        state = json.loads((self.appliance.data_dir / "appliance.json").read_text())
        answer = httpx.post(
            f"{state['rest_url']}/api/v1/jobs/detached",
            json={"argv": argv, "work_dir": str(directory), "environment": {}},
            headers={"authorization": f"Bearer {self.variables(user)['CSAUTH_TOKEN']}"},
            timeout=60,
            verify=ssl.create_default_context(cadata=self.authority()),
        )
        assert answer.is_success, answer.text
        return str(answer.json()["job"])

    def logs_of(self, user: Person, job: str) -> list[str]:
        """Return what a run has printed, once it has ended."""
        followed = self.csctl(user, "logs", "--follow", job)
        assert followed.returncode == 0, followed.stderr
        return followed.stdout.splitlines()

    def start(self, user: Person) -> ClientRun:
        """Start a training of a user's own."""
        words = [str(client_venv() / "bin" / "python"), str(self.folder / "client" / "train.py")]
        out, log = user.home / "result.json", user.home / "client.log"
        command = user.command(
            *(*words, *TRAINING, "--backend", "CSX", "--out", str(out)),
            OMP_NUM_THREADS="1",
            PATH=f"{client_venv()}/bin:{os.environ['PATH']}",
            **self.variables(user),
        )
        with log.open("w") as stream:
            process = subprocess.Popen(
                [*self.appliance.enter, *command],
                stdout=stream,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return ClientRun(process, out, log)

    def spy(self, command: Sequence[str], targets: dict[str, list[object]]) -> list[str]:
        """Return what whoever runs a command gets at."""
        listed = self.folder / "targets.json"
        listed.write_text(json.dumps(targets))
        listed.chmod(0o644)
        finished = subprocess.run(
            [*self.appliance.enter, *command], capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stderr
        got: list[str] = json.loads(finished.stdout)
        return got

    def spying(self) -> list[str]:
        """Return the spy's command."""
        return [sys.executable, str(self.folder / "spy.py"), str(self.folder / "targets.json")]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix="wsc-users-", dir="/tmp"))
    folder.chmod(0o711)
    shutil.copytree(PROGRAMS, folder / "client")
    shutil.copy(SPY, folder)
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    names = [f"wsc{each}{os.getpid()}" for each in "ab"]
    with (
        made_user(names[0], folder / "home-a") as ada,
        made_user(names[1], folder / "home-b") as bob,
        open_to_all() as enter,
    ):
        appliance = SharedAppliance(folder / "data", enter=enter)
        appliance.up("--systems", "2", "--tls", "--tokens")
        try:
            shutil.copy(appliance.config_path, folder)
            (folder / "config_v2").chmod(0o644)
            yield Place(appliance, folder, (ada, bob))
        finally:
            appliance.down()
    shutil.rmtree(folder)


def test_both_train_and_neither_gets_at_anything_of_the_other(place: Place) -> None:
    runs = {user: place.start(user) for user in place.users}
    wait_until(
        lambda: all(map(streamers, place.users)),
        seconds=300,
        what="the input programs of both",
        seen=lambda: "\n".join(run.text()[-3000:] for run in runs.values()),
    )
    with stopped([pid for user in place.users for pid in streamers(user)]):
        assert_apart(place)
    results = [runs[user].result() for user in place.users]
    first, second = map(losses, results)
    assert len(first) == STEPS
    assert first == second


def assert_apart(place: Place) -> None:
    """Check that neither user gets at anything of the other while both jobs run."""
    ada, bob = place.users
    of_ada = targets(place, ada, spy=bob)
    assert len(of_ada["pids"]) > 8
    assert len(of_ada["sockets"]) > 8
    # A second connection to the fork server would take it from management.
    calls = [each for each in of_ada["sockets"] if Path(str(each)).name != "launcher.sock"]
    as_root = set(place.spy(place.spying(), {**of_ada, "sockets": calls}))
    for what in ("environ of", "call /", "read /tmp", "write /tmp", "signal of"):
        assert any(each.startswith(what) for each in as_root), (what, as_root)
    assert place.spy(bob.command(*place.spying()), of_ada) == []
    assert place.spy(ada.command(*place.spying()), targets(place, bob, spy=ada)) == []
    own = place.spy(ada.command(*place.spying()), {**of_ada, "pids": streamers(ada)})
    assert any(each.startswith("environ of") for each in own)
    assert not any("state.db" in each or "token.key" in each for each in own)

    (job,) = jobs_with_input(place, ada)
    assert place.csctl(ada, "logs", job).returncode == 0
    refused = place.csctl(bob, "logs", job)
    assert refused.returncode != 0
    assert "may not" in refused.stderr, refused.stderr


@contextlib.contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """Keep jobs from ending: their input programs make no batches."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def streamers(user: Person) -> list[int]:
    """Return the processes that serve the input of the user's jobs."""
    return [
        process.pid
        for process in psutil.process_iter()
        if owner_of(process) == user.uid
        and Path(directory_of(process)).name.startswith("streamer-")
    ]


def test_a_detached_run_is_its_users_and_says_what_they_may_not(place: Place) -> None:
    ada, bob = place.users
    script = bob.home / "run.sh"
    script.write_text("#!/bin/sh\nid -u; id -g; pwd; touch made; umask\n")
    script.chmod(0o700)
    os.chown(script, bob.uid, bob.gid)
    assert place.logs_of(bob, place.submit(bob, "./run.sh")) == [
        *(str(bob.uid), str(bob.gid), str(bob.home), "0022")
    ]
    assert (bob.home / "made").stat().st_uid == bob.uid
    intruding = place.submit_in(ada, bob.home, ["./run.sh"])
    said = "\n".join(place.logs_of(ada, intruding))
    assert f"the directory {bob.home} cannot be entered by user {ada.uid}" in said


def jobs_with_input(place: Place, user: Person) -> Iterator[str]:
    """Yield the jobs that have a directory of the user's for their input programs."""
    state = json.loads((place.appliance.data_dir / "appliance.json").read_text())
    for path in Path(state["runtime_root"]).glob("wsjob-*/streamer-*"):
        if path.is_dir() and path.stat().st_uid == user.uid:
            yield path.parent.name


def is_of_another(path: Path, user: Person) -> bool:
    """Return whether a path is there and somebody else's than a user's."""
    status = status_of(path)
    return status is not None and status.st_uid != user.uid


def status_of(path: Path) -> os.stat_result | None:
    """Return what a path is; None if it is gone, as sockets are once all have connected."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def targets(place: Place, user: Person, *, spy: Person) -> dict[str, list[object]]:
    """Return what is the user's or the appliance's: files, sockets, memory, processes."""
    state = json.loads((place.appliance.data_dir / "appliance.json").read_text())
    found = {
        path: status
        for root in (place.appliance.data_dir, Path(state["runtime_root"]), user.home)
        for path in (root, *root.rglob("*"))
        if (status := status_of(path)) is not None
    }
    files = [
        path
        for path, status in found.items()
        if not stat.S_ISLNK(status.st_mode) and status.st_uid != spy.uid
    ]
    sockets = [path for path in files if stat.S_ISSOCK(found[path].st_mode)]
    passages = {path for path in files if found[path].st_mode & 0o777 == 0o711}
    ours = [psutil.Process(state["pid"]), *psutil.Process(state["pid"]).children(True)]
    theirs = [each for each in psutil.process_iter() if owner_of(each) == user.uid]
    unix = Path("/proc/net/unix").read_text().split()
    return {
        "paths": [str(path) for path in files if path not in passages and path not in sockets]
        + [str(path) for path in Path("/dev/shm").iterdir() if is_of_another(path, spy)],
        "sockets": [str(path) for path in sockets],
        "addresses": sorted({word.removeprefix("@") for word in unix if word.startswith("@wsc-")}),
        "pids": sorted({each.pid for each in (*ours, *theirs) if owner_of(each) != spy.uid}),
    }
