"""A container engine for tests: the one that answers, else a private one that ends with the tests.

The private engine keeps its images below ~/.cache/wsc/engine, since one of them takes minutes to
build; containers, networks and volumes never outlive a test.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
LOCAL = "wsc-local"
NODES_USER, NODES_UID = "appliance", 10001
"""As whom nodes in containers run; in a project a uid has one account, so one name."""
"""Prefix of the images that stand in for those that cannot be pulled."""
_START_SECONDS = 60
_KEPT_LAYERS = "8GB"
"""So much of what images were built of is kept for the next build; all of it once takes 6 GB."""
_DENIED = re.compile(
    r"operation not permitted|permission denied|read-only file system|cgroups? isn't mounted|"
    r"cgroup mountpoint does not exist",
    re.IGNORECASE,
)
"""What an engine says last where the machine lets it have no mounts or cgroups."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A container engine.

    Attributes:
        host: What DOCKER_HOST is for it; empty for the machine's own.
    """

    host: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment for commands that talk to it."""
        return os.environ | ({"DOCKER_HOST": self.host} if self.host else {})

    def docker(self, *arguments: str, timeout_seconds: float = 120) -> str:
        """Run a docker command and return what it printed."""
        done = self.try_docker(*arguments, timeout_seconds=timeout_seconds)
        assert done.returncode == 0, f"docker {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def try_docker(
        self, *arguments: str, timeout_seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a docker command, whatever becomes of it."""
        return subprocess.run(
            ["docker", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )

    def answers(self) -> bool:
        """Whether it answers."""
        return self.try_docker("info", "--format", "{{.ServerVersion}}").returncode == 0


class NoEngineError(Exception):
    """No container engine can run on this machine."""


def reason_to_skip() -> str:
    """Return why no engine can be had here; empty if one can."""
    if shutil.which("docker") is None:
        return "there is no docker; deploy/setup.sh engine installs it"
    if Engine().answers():
        return ""
    if os.getuid() != 0:
        return "no container engine answers, and only root can start one"
    if shutil.which("dockerd") is None:
        return "there is no dockerd; deploy/setup.sh engine installs it"
    return denied_by_machine()


def denied_by_machine(*, prefix: Sequence[str] = ()) -> str:
    """Return why containers cannot have namespaces and bridges here; empty if they can.

    Args:
        prefix: What to put before the command that tries.
    """
    attempt = [*prefix, "unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork"]
    attempt += ["ip", "link", "add", "probe", "type", "bridge"]
    done = subprocess.run(attempt, capture_output=True, text=True, check=False)
    return f"no container can run here: {done.stderr.strip()}" if done.returncode else ""


def refusal_in(log: str) -> str:
    """Return what this machine denied to an engine that ended by itself.

    Args:
        log: The engine's log.

    Returns:
        Its last line, if that says so; empty if it ended for another reason, which is a fault.
    """
    last = log.strip().rpartition("\n")[2]
    return last if _DENIED.search(last) else ""


@contextmanager
def running_engine() -> Iterator[Engine]:
    """Hand out an engine that answers.

    Raises:
        NoEngineError: There is none, and this machine lets none run that is of use.
    """
    if Engine().answers():
        yield Engine()
        return
    root = os.environ.get("WSC_ENGINE_ROOT", str(Path.home() / ".cache" / "wsc" / "engine"))
    with private_engine(root) as engine:
        forget_what_no_test_uses(engine)
        yield engine


def forget_what_no_test_uses(engine: Engine) -> None:
    """Remove what earlier tests left on their own engine, whose disk would be full after a month.

    Each build of changed sources leaves the images that it replaces, and tests that were killed
    leave volumes.
    """
    for what in (
        ("container",),
        ("image",),
        ("volume",),
        ("builder", "--keep-storage", _KEPT_LAYERS),
    ):
        engine.docker(what[0], "prune", "--force", *what[1:], timeout_seconds=600)


@contextmanager
def private_engine(root: str, *arguments: str, prefix: Sequence[str] = ()) -> Iterator[Engine]:
    """Start an engine of our own and end it.

    Args:
        root: Where its images are kept.
        arguments: Further arguments of dockerd.
        prefix: What to put before the command.

    Raises:
        NoEngineError: This machine lets none run, or none that is of use.
    """
    directory = Path(tempfile.mkdtemp(prefix="wsc-engine"))
    engine = Engine(host=f"unix://{directory}/socket")
    # Tests that are killed leave no engine behind, which would hold the images' lock.
    command = [*prefix, "setpriv", "--pdeathsig", "TERM", "dockerd"]
    command += ["--host", engine.host, "--data-root", root]
    command += arguments
    command += ["--exec-root", str(directory / "run"), "--pidfile", str(directory / "pid")]
    # The machine's own network stays as it is.
    command += ["--iptables=false", "--ip-forward=false", "--ip-masq=false", "--bridge=none"]
    was_mounted = _is_mounted(root)
    log = directory / "log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        wait_until(
            lambda: daemon.poll() is not None or engine.answers(),
            seconds=_START_SECONDS,
            what="the container engine's answer",
            seen=log.read_text,
        )
        if daemon.poll() is not None and (refusal := refusal_in(log.read_text())):
            raise NoEngineError(f"no container engine can be started here: {refusal}")
        assert daemon.poll() is None, log.read_text()
        if engine.docker("info", "--format", "{{.Driver}}").strip() == "vfs":
            raise NoEngineError(
                f"the container engine has no overlays below {root}: it would copy all files of "
                "an image for each of its layers"
            )
        yield engine
    finally:
        _end(daemon)
        # The engine leaves mounts behind: the network of containers that share the machine's, and
        # now and then its images' directory upon itself.
        for left in (directory / "run" / "netns").glob("*"):
            subprocess.run(["umount", left], capture_output=True, check=False)
        if not was_mounted and _is_mounted(root):
            subprocess.run(["umount", root], capture_output=True, check=False)
        shutil.rmtree(directory)


def _is_mounted(directory: str) -> bool:
    return subprocess.run(["mountpoint", "-q", directory], check=False).returncode == 0


def _end(daemon: "subprocess.Popen[bytes]") -> None:
    daemon.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        daemon.wait(30)
    if daemon.poll() is None:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()


def builder_environment() -> dict[str, str]:
    """Return the variables with which Compose builds by BuildKit; none if no docker here has it.

    BuildKit makes only the stages that are needed and writes each layer once: the images take half
    the time and half the disk. Compose 1.29 lets the first docker of PATH build; those from 23.0 on
    need a plugin for BuildKit, which is not everywhere.
    """
    variables = {"DOCKER_BUILDKIT": "1", "COMPOSE_DOCKER_CLI_BUILD": "1"}
    path = os.environ.get("PATH", os.defpath)
    for directory in path.split(os.pathsep):
        docker = shutil.which("docker", path=directory)
        if docker is None:
            continue
        done = subprocess.run(
            [docker, "build", "--help"],
            env={**os.environ, **variables},
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            return {**variables, "PATH": os.pathsep.join((directory, path))}
    return {}


@dataclass(frozen=True, kw_only=True)
class Images:
    """Where images come from, as variables of docker-compose.yml."""

    variables: dict[str, str]


def choose_images(engine: Engine) -> Images:
    """Return the public images where they can be pulled, else make stand-ins of Debian packages."""
    if engine.try_docker("pull", "-q", "python:3.11-slim", timeout_seconds=600).returncode == 0:
        return Images(variables={})
    script = ROOT / "deploy" / "make-local-base-image.sh"
    done = subprocess.run(
        [script, LOCAL], env=engine.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Images(
        variables={
            "BASE": f"{LOCAL}/python:3.11-slim",
            "POSTGRES_IMAGE": f"{LOCAL}/postgres:15",
            "PROMETHEUS_IMAGE": f"{LOCAL}/prometheus:2",
            "TORCH_INDEX": "",
        }
    )


@contextmanager
def composed(
    engine: Engine, project: str, variables: dict[str, str], **scale: int
) -> "Iterator[Compose]":
    """Yield a project that is up, with images of what is here; nothing is left of it afterwards.

    Args:
        engine: Where it runs.
        project: Its name.
        variables: Variables of docker-compose.yml.
        scale: So many containers of some services.
    """
    compose = Compose(engine, project, variables)
    compose.run("build", "-q", timeout_seconds=1500)
    try:
        compose.up(**scale)
        yield compose
    finally:
        story = compose.try_run("logs", "--no-color", "--tail", "60")
        print(story.stdout[-20000:])
        compose.run("down", "--volumes", "--timeout", "40")
    assert compose.leftovers() == {}


class Compose:
    """One project of docker-compose.yml.

    Args:
        engine: Where it runs.
        project: Its name.
        variables: Variables of the file.
    """

    def __init__(self, engine: Engine, project: str, variables: dict[str, str]) -> None:
        self._engine, self._project = engine, project
        host = {"DOCKER_HOST": engine.host} if engine.host else {}
        self._variables = {**host, **builder_environment(), **variables}
        self._environment = {**os.environ, **self._variables}
        has_plugin = engine.try_docker("compose", "version").returncode == 0
        program = ("docker", "compose") if has_plugin else ("docker-compose",)
        file = str(ROOT / "docker-compose.yml")
        self._command: Sequence[str] = (*program, "-p", project, "-f", file)

    def run(self, *arguments: str, timeout_seconds: float = 300) -> str:
        """Run a command of Compose and return what it printed."""
        done = self.try_run(*arguments, timeout_seconds=timeout_seconds)
        text = f"{done.stdout}{done.stderr}"
        assert done.returncode == 0, f"compose {' '.join(arguments)}:\n{text[-8000:]}"
        return done.stdout

    def try_run(
        self, *arguments: str, timeout_seconds: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of Compose, whatever becomes of it."""
        return subprocess.run(
            [*self._command, *arguments],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )

    def execute(self, service: str, *command: str, timeout_seconds: float = 300) -> str:
        """Run a command in a service's container and return what it printed."""
        return self.run("exec", "-T", service, *command, timeout_seconds=timeout_seconds)

    def stand_in(self, folder: Path) -> None:
        """Write a program `docker` for which `docker compose` is about this project.

        Docker may say that a container is gone before its network has let it go, and `down` then
        fails at the network. As a user does, it is typed again.
        """
        told = [f"export {name}={shlex.quote(value)}" for name, value in self._variables.items()]
        call = shlex.join(self._command)
        lines = [
            *(*told, '[ "$1" = compose ] || exit 64', "shift"),
            f'[ "$1" = down ] || exec {call} "$@"',
            f'said=$({call} "$@" 2>&1) && status=0 || status=$?',
            'printf "%s\\n" "$said"',
            f'case "$said" in *"has active endpoints"*) exec {call} "$@" ;; esac',
            'exit "$status"',
        ]
        program = folder / "docker"
        program.write_text("\n".join(["#!/bin/bash", *lines, ""]))
        program.chmod(0o755)

    def nodes_token(self) -> str:
        """Return a new token of the nodes' own user, whose scripts alone they can run."""
        uid = str(NODES_UID)
        mint = ("appliance", "token", "create", NODES_USER, "--uid", uid, "--gid", uid)
        return self.execute("management", *mint).strip()

    def start(
        self, service: str, *command: str, has_input: bool = False
    ) -> "subprocess.Popen[str]":
        """Start a command in a service's container."""
        return subprocess.Popen(
            [*self._command, "exec", "-T", service, *command],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def feed(self, service: str, *command: str, text: str) -> None:
        """Run a command in a service's container that reads a text."""
        process = self.start(service, *command, has_input=True)
        said, _ = process.communicate(text, timeout=60)
        assert process.returncode == 0, said

    def up(self, **scale: int) -> None:
        """Start everything, so many of some services, and wait until it is healthy."""
        arguments = [f"--scale={service}={count}" for service, count in scale.items()]
        self.run("up", "-d", "--no-build", *arguments, timeout_seconds=600)

    @property
    def label(self) -> str:
        """Filter by which the engine finds what is of this project."""
        return f"label=com.docker.compose.project={self._project}"

    def leftovers(self) -> dict[str, list[str]]:
        """Return what there is of this project: containers, networks, volumes."""
        commands = {
            "containers": ("ps", "-aq", "--filter", self.label),
            "networks": ("network", "ls", "-q", "--filter", self.label),
            "volumes": ("volume", "ls", "-q", "--filter", self.label),
        }
        found = {kind: self._engine.docker(*command).split() for kind, command in commands.items()}
        return {kind: names for kind, names in found.items() if names}
