"""Nodes as real processes: agents of their own address that join a real appliance."""

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.appliance_process import ROOT, run_command, wait_for

ALL_ROLES = ("management", "memory", "broadcastreduce", "activation", "worker")


def agent_arguments(inner_port: int, node_port: int) -> tuple[str, ...]:
    """Return what `appliance up` needs beside, to run its pods on nodes."""
    return (
        *("--launcher", "agents", "--inner-host", "127.0.0.1"),
        *("--inner-port", str(inner_port), "--node-port", str(node_port)),
    )


def write_token(data_dir: Path) -> Path:
    """Make a join token and return its file."""
    answer = run_command("token", "node", "--data-dir", str(data_dir))
    assert answer.returncode == 0, answer.stderr
    path = data_dir / "join.token"
    path.write_text(answer.stdout)
    return path


class NodeProcess:
    """One agent, started with `appliance node`.

    Args:
        name: The node's name.
        address: Its address.
        roles: What its pods may be.
        join: host:port of management's port for nodes.
        token: File with the join token.
        directory: Where its log goes.
        extra: Further arguments.
        prefix: What to put before the command.
        program: The program that has the commands of `appliance`, and its own arguments.
    """

    def __init__(
        self,
        name: str,
        address: str,
        roles: Sequence[str],
        *,
        join: str,
        token: Path,
        directory: Path,
        extra: Sequence[str] = (),
        prefix: Sequence[str] = (),
        program: Sequence[str] = ("appliance",),
    ) -> None:
        self.name, self.log_path = name, directory / f"{name}.log"
        self.runtime_root = Path(f"/tmp/wsc-n{uuid.uuid4().hex[:10]}")
        self._command = [
            *prefix,
            *(sys.executable, "-m", *program, "node", "--join", join),
            *("--name", name, "--address", address, "--token-file", str(token)),
            *("--runtime-dir", str(self.runtime_root)),
            *(word for role in roles for word in ("--role", role)),
            *extra,
        ]
        self.start()

    def start(self) -> None:
        """Start the agent, or start it anew."""
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self) -> str:
        return self.log_path.read_text()

    def num_joined(self) -> int:
        """Return how often it has joined."""
        return self.log().count("Node has joined")

    def wait_joined(self, times: int = 1) -> None:
        wait_for(
            lambda: self.num_joined() >= times or self.process.poll() is not None,
            seconds=300,
            what=f"node {self.name} has joined {times} times",
        )
        assert self.process.poll() is None, self.log()

    def runtime_dir(self, job: str) -> Path:
        return self.runtime_root / job

    def kill(self) -> None:
        """Kill the agent, and nothing else."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """End the agent in order, with all its pods."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextlib.contextmanager
def joined_nodes(*nodes: NodeProcess) -> Iterator[tuple[NodeProcess, ...]]:
    """Wait until nodes have joined, hand them out, end them; prints their logs on failure."""
    try:
        for node in nodes:
            node.wait_joined()
        yield nodes
    except BaseException:
        for node in nodes:
            print(f"--- {node.name}\n{node.log()}")
        raise
    finally:
        for node in nodes:
            node.end()
